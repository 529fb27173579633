cdef class Writer:
    cdef unsigned char[::1] out
    cdef const unsigned char[::1] literals
    cdef const long long[:, ::1] places
    cdef const long long[:, ::1] wide
    cdef public Py_ssize_t at
    cdef Py_ssize_t width

cdef int put_byte(Writer w, int byte) except -1 nogil
cdef int copy_bytes(Writer w, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t n) except -1 nogil
cdef int put_literal(Writer w, Py_ssize_t index) except -1 nogil
cdef int put_number(Writer w, long long value, bint grouped) except -1 nogil
cdef int put_hex_digit(Writer w, int nibble) except -1 nogil
cdef int put_time(Writer w, long long ms) except -1 nogil
cdef int put_hex(Writer w, const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end) except -1 nogil
cdef int put_base64(Writer w, const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end) except -1 nogil
