/* The compiled form of `walk_records` in record_walk.py, which says what it does; the tests hold both to the same answers.
 *
 * It reads what any client sends: no byte outside [position, end) is touched, lengths are compared with what is left and never
 * added first, and all arithmetic on values of the wire is unsigned, so that it may wrap. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

enum problem { NOTHING, MALFORMED, OFFSETS };

/* Reads a zigzag varint of at most `bits_max` bits. Returns the position after it, NULL when it does not end in time. */
static const uint8_t *
read_varint(const uint8_t *position, const uint8_t *end, unsigned bits_max, int64_t *value)
{
    uint64_t raw = 0;
    for (unsigned shift = 0; shift < bits_max && position < end; shift += 7) {
        uint64_t byte = *position++;
        raw |= (byte & 0x7F) << shift;
        if (byte < 0x80) {
            if (bits_max == 32)
                raw = (uint32_t)raw;
            *value = (int64_t)((raw >> 1) ^ (0 - (raw & 1)));
            return position;
        }
    }
    return NULL;
}

/* Skips a field and the length before it, which is negative for null. Returns the position after it, NULL when it does not fit. */
static const uint8_t *
skip_field(const uint8_t *position, const uint8_t *end, int64_t *length)
{
    position = read_varint(position, end, 32, length);
    if (position == NULL || *length > end - position)
        return NULL;
    return *length > 0 ? position + *length : position;
}

static const uint8_t *
skip_headers(const uint8_t *position, const uint8_t *end)
{
    int64_t count, length;
    position = read_varint(position, end, 32, &count);
    if (position == NULL || count < 0 || count > end - position)
        return NULL;
    while (count-- > 0) {
        position = skip_field(position, end, &length);
        if (position == NULL || length < 0)
            return NULL;
        position = skip_field(position, end, &length);
        if (position == NULL)
            return NULL;
    }
    return position;
}

static PyObject *
walk_records(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    if (nargs != 4) {
        PyErr_SetString(PyExc_TypeError, "walk_records takes a buffer, a position, a count and a base timestamp");
        return NULL;
    }
    Py_ssize_t start = PyLong_AsSsize_t(args[1]);
    long long count = PyLong_AsLongLong(args[2]);
    long long base = PyLong_AsLongLong(args[3]);
    Py_buffer buffer;
    if (PyErr_Occurred() || PyObject_GetBuffer(args[0], &buffer, PyBUF_SIMPLE) < 0)
        return NULL;
    if (start < 0 || start > buffer.len) {
        PyBuffer_Release(&buffer);
        PyErr_SetString(PyExc_ValueError, "the position lies outside the buffer");
        return NULL;
    }

    const uint8_t *position = (const uint8_t *)buffer.buf + start;
    const uint8_t *end = (const uint8_t *)buffer.buf + buffer.len;
    enum problem problem = NOTHING;
    int64_t largest = -1, smallest = INT64_MAX;
    long long index = 0, keyless = -1;
    for (; index < count; index++) {
        int64_t size, timestamp, delta, length;
        problem = MALFORMED;
        position = read_varint(position, end, 32, &size);
        if (position == NULL || size < 1 || size > end - position)
            break;
        const uint8_t *stop = position + size;
        position = read_varint(position + 1, stop, 64, &timestamp);
        if (position == NULL || (position = read_varint(position, stop, 32, &delta)) == NULL)
            break;
        if ((position = skip_field(position, stop, &length)) == NULL)
            break;
        if (length < 0 && keyless < 0)
            keyless = index;
        if ((position = skip_field(position, stop, &length)) == NULL)
            break;
        position = skip_headers(position, stop);
        if (position != stop)
            break;
        problem = OFFSETS;
        if (delta != index)
            break;
        problem = NOTHING;
        timestamp = (int64_t)((uint64_t)base + (uint64_t)timestamp);
        if (timestamp > largest)
            largest = timestamp;
        if (timestamp < smallest && timestamp != -1)
            smallest = timestamp;
    }
    if (problem == NOTHING && position != end)
        problem = MALFORMED;
    PyBuffer_Release(&buffer);
    return Py_BuildValue("iLLLL", (int)problem, index, (long long)largest, (long long)smallest, keyless);
}

static PyMethodDef methods[] = {
    {"walk_records", (PyCFunction)(void (*)(void))walk_records, METH_FASTCALL, "See minikafka.protocol.record_walk."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_record_walk", "The compiled form of minikafka.protocol.record_walk.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit__record_walk(void)
{
    return PyModule_Create(&definition);
}
