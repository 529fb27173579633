from kfmt_cli.core.native.text cimport Writer

cdef int put_cell_bytes(Writer writer, const unsigned char[::1] data, Py_ssize_t start, long long length, int mode, Py_ssize_t max_width) except -1 nogil
cdef int end_cell(Writer writer, Py_ssize_t cell_start, Py_ssize_t cell_width, int alignment, bint is_truncated) except -1 nogil
