from kfmt_cli.core.native.text cimport Writer

cdef int put_cell_bytes(Writer w, const unsigned char[::1] data, Py_ssize_t at, long long length, int mode, Py_ssize_t limit) except -1 nogil
cdef int end_cell(Writer w, Py_ssize_t begin, Py_ssize_t width, int alignment, bint is_cut) except -1 nogil
