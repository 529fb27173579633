cdef long long max_row_bytes(const unsigned char[::1] data, const long long[::1] shape, const long long[:, ::1] columns, Py_ssize_t row, const long long[:, ::1] children) except -1 nogil
