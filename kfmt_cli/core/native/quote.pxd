from kfmt_cli.core.native.text cimport Writer

cdef int utf8_length(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end) except -1 nogil
cdef int short_escape_letter(int byte) except -1 nogil
cdef int put_json_bytes(Writer w, const unsigned char[::1] data, Py_ssize_t at, long long length, int mode, Py_ssize_t encoding) except -1 nogil
cdef int csv_encoding(const unsigned char[::1] data, Py_ssize_t at, long long length, int mode) except -1 nogil
cdef int put_csv_bytes(Writer w, const unsigned char[::1] data, Py_ssize_t at, long long length, int mode) except -1 nogil
cdef int double_quotes(Writer w, Py_ssize_t begin) except -1 nogil
