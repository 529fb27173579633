from kfmt_cli.core.native.text cimport Writer

cdef int utf8_length(const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t end) except -1 nogil
cdef int short_escape_letter(int byte) except -1 nogil
cdef int put_json_bytes(Writer writer, const unsigned char[::1] data, Py_ssize_t start, long long length, int mode, Py_ssize_t encoding_literal) except -1 nogil
cdef int csv_encoding(const unsigned char[::1] data, Py_ssize_t start, long long length, int mode) except -1 nogil
cdef int put_csv_bytes(Writer writer, const unsigned char[::1] data, Py_ssize_t start, long long length, int mode) except -1 nogil
cdef int double_quotes(Writer writer, Py_ssize_t output_start) except -1 nogil
