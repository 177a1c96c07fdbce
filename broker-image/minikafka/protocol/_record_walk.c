/* The compiled forms of `walk_records` and `find_record` in record_walk.py, which says what they do; the tests hold both to the same
 * answers.
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

/* Reads one record. Returns the position after it, NULL when its bytes are none. */
static inline const uint8_t *
read_record(const uint8_t *position, const uint8_t *end, int64_t *timestamp_delta, int64_t *offset_delta, int64_t *key_length)
{
    int64_t size, length;
    position = read_varint(position, end, 32, &size);
    if (position == NULL || size < 1 || size > end - position)
        return NULL;
    const uint8_t *stop = position + size;
    if ((position = read_varint(position + 1, stop, 64, timestamp_delta)) == NULL
        || (position = read_varint(position, stop, 32, offset_delta)) == NULL
        || (position = skip_field(position, stop, key_length)) == NULL
        || (position = skip_field(position, stop, &length)) == NULL)
        return NULL;
    return skip_headers(position, stop) == stop ? stop : NULL;
}

static inline int64_t
wrapping_sum(int64_t base, int64_t delta)
{
    return (int64_t)((uint64_t)base + (uint64_t)delta);
}

/* What both functions are called with: a buffer, a position in it, a count of records and their base timestamp. */
struct records {
    Py_buffer buffer;
    Py_ssize_t start;
    long long count, base;
};

static int
get_records(PyObject *const *args, struct records *records)
{
    records->start = PyLong_AsSsize_t(args[1]);
    records->count = PyLong_AsLongLong(args[2]);
    records->base = PyLong_AsLongLong(args[3]);
    if (PyErr_Occurred() || PyObject_GetBuffer(args[0], &records->buffer, PyBUF_SIMPLE) < 0)
        return 0;
    if (records->start >= 0 && records->start <= records->buffer.len)
        return 1;
    PyBuffer_Release(&records->buffer);
    PyErr_SetString(PyExc_ValueError, "the position lies outside the buffer");
    return 0;
}

/* Bytes above which other threads run meanwhile: a walk over so many tiny records takes a millisecond or two. Below that asking for
 * the lock back may take longer than the walk. */
#define LOCKED_BYTES_MAX (1 << 20)

static PyThreadState *
unlocked(const struct records *records)
{
    return records->buffer.len - records->start > LOCKED_BYTES_MAX ? PyEval_SaveThread() : NULL;
}

static void
done(struct records *records, PyThreadState *thread)
{
    if (thread != NULL)
        PyEval_RestoreThread(thread);
    PyBuffer_Release(&records->buffer);
}

static PyObject *
walk_records(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    struct records records;
    if (nargs != 4) {
        PyErr_SetString(PyExc_TypeError, "walk_records takes a buffer, a position, a count and a base timestamp");
        return NULL;
    }
    if (!get_records(args, &records))
        return NULL;
    PyThreadState *thread = unlocked(&records);

    const uint8_t *position = (const uint8_t *)records.buffer.buf + records.start;
    const uint8_t *end = (const uint8_t *)records.buffer.buf + records.buffer.len;
    enum problem problem = NOTHING;
    int64_t largest = -1, smallest = INT64_MAX;
    long long index = 0, keyless = -1;
    for (; index < records.count; index++) {
        int64_t timestamp, delta, key_length;
        problem = MALFORMED;
        if ((position = read_record(position, end, &timestamp, &delta, &key_length)) == NULL)
            break;
        if (key_length < 0 && keyless < 0)
            keyless = index;
        problem = OFFSETS;
        if (delta != index)
            break;
        problem = NOTHING;
        timestamp = wrapping_sum(records.base, timestamp);
        if (timestamp > largest)
            largest = timestamp;
        if (timestamp < smallest && timestamp != -1)
            smallest = timestamp;
    }
    if (problem == NOTHING && position != end)
        problem = MALFORMED;
    done(&records, thread);
    return Py_BuildValue("iLLLL", (int)problem, index, (long long)largest, (long long)smallest, keyless);
}

static PyObject *
find_record(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    struct records records;
    if (nargs != 6) {
        PyErr_SetString(PyExc_TypeError, "find_record takes what walk_records does, a timestamp and an offset delta");
        return NULL;
    }
    long long wanted = PyLong_AsLongLong(args[4]);
    long long first = PyLong_AsLongLong(args[5]);
    if (PyErr_Occurred() || !get_records(args, &records))
        return NULL;
    PyThreadState *thread = unlocked(&records);

    const uint8_t *position = (const uint8_t *)records.buffer.buf + records.start;
    const uint8_t *end = (const uint8_t *)records.buffer.buf + records.buffer.len;
    enum problem problem = NOTHING;
    int64_t largest = INT64_MIN, found = -1;
    for (long long index = 0; index < records.count; index++) {
        int64_t timestamp, delta, key_length;
        if ((position = read_record(position, end, &timestamp, &delta, &key_length)) == NULL) {
            problem = MALFORMED;
            break;
        }
        timestamp = wrapping_sum(records.base, timestamp);
        if (delta < first || (found >= 0 && timestamp <= largest))
            continue;
        largest = timestamp;
        found = delta;
        if (timestamp >= wanted)
            break;
    }
    done(&records, thread);
    return Py_BuildValue("iLL", (int)problem, (long long)found, (long long)largest);
}

static PyMethodDef methods[] = {
    {"walk_records", (PyCFunction)(void (*)(void))walk_records, METH_FASTCALL, "See minikafka.protocol.record_walk."},
    {"find_record", (PyCFunction)(void (*)(void))find_record, METH_FASTCALL, "See minikafka.protocol.record_walk."},
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
