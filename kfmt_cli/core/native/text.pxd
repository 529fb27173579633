cdef class Writer:
    cdef unsigned char[::1] out
    cdef const unsigned char[::1] literals
    cdef const long long[:, ::1] places
    cdef const long long[:, ::1] wide
    cdef public Py_ssize_t at
    cdef Py_ssize_t width

cdef int put_byte(Writer writer, int byte) except -1 nogil
cdef int copy_bytes(Writer writer, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t n_bytes) except -1 nogil
cdef int put_literal(Writer writer, Py_ssize_t literal_index) except -1 nogil
cdef int put_number(Writer writer, long long value, bint is_grouped) except -1 nogil
cdef int put_hex_digit(Writer writer, int nibble) except -1 nogil
cdef int put_time(Writer writer, long long time_ms) except -1 nogil
cdef int put_hex(Writer writer, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end) except -1 nogil
cdef int put_base64(Writer writer, const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t end) except -1 nogil
