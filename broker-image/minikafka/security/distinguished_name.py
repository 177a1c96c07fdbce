"""The name of a certificate's subject as Kafka has it: what Java's ``X500Principal.getName()`` answers (RFC 2253).

Rules of ``ssl.principal.mapping.rules`` are written for that form, to the letter: a value must not look like another
attribute there. `ssl` tells too little of a subject for it: neither the types of its strings nor their bytes.
"""

from __future__ import annotations

import re

_SEQUENCE, _SET, _OBJECT_IDENTIFIER, _UTF8_STRING, _BMP_STRING, _VERSION = 0x30, 0x31, 0x06, 0x0C, 0x1E, 0xA0
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""Of RFC 2253. Java writes every other attribute by its number, with its value in hexadecimal."""

_LATIN_1_STRINGS = (0x13, 0x14, 0x16, 0x1B)
"""Printable, T61, IA5 and general ones, as JDK 25.0.3 reads them, and BMP ones by two bytes; 17.0.15 takes all for UTF-8."""

_NUMBER_BYTES_MAX = 4096
"""Of an object identifier, as in Java."""


def distinguished_name(certificate: bytes) -> str:
    """Name the subject of a certificate in DER, its last part first. Raises ValueError where it cannot be read."""
    ((_, parts, _),) = _values(certificate, _SEQUENCE)
    (_, signed, _), _algorithm, _signature = _values(parts)
    fields = (each for each in _values(signed) if each[0] != _VERSION)  # the first certificates had no versions
    _serial_number, _algorithm, _issuer, _validity, (_, _, subject), *_ = fields
    ((_, name, _),) = _values(subject, _SEQUENCE)
    relatives = [_values(content, _SEQUENCE) for _, content, _ in _values(name, _SET)]
    return ",".join("+".join(_attribute(content) for _, content, _ in relative) for relative in reversed(relatives))


def _values(data: bytes, tag: int | None = None) -> list[tuple[int, bytes, bytes]]:
    """Take apart values in DER, all with this tag if one is given: the tag of each, its content, and all of it."""
    values, begin = [], 0
    while begin < len(data):
        found, length, at = data[begin], int.from_bytes(data[begin + 1 : begin + 2]), begin + 2
        if length > 127:
            at += length - 128
            length = int.from_bytes(data[begin + 2 : at])
            if length < 128 or not data[begin + 2]:
                raise ValueError("a length in another form than DER has")
        if at + length > len(data) or found & 31 == 31 or tag not in (None, found):
            raise ValueError(f"a value that is cut off, or has no place there: {found}")
        values.append((found, data[at : at + length], data[begin : at + length]))
        begin = at + length
    return values


def _attribute(content: bytes) -> str:
    (kind, number, _), (tag, value, whole) = _values(content)
    if kind != _OBJECT_IDENTIFIER:
        raise ValueError("an attribute that is named by no object identifier")
    name = _dotted(number)
    text = _text(tag, value)  # refused where Java refuses it, also what is written in hexadecimal
    if text is None or name not in _KEYWORDS:
        return f"{_KEYWORDS.get(name, name)}=#{whole.hex()}"
    return f"{_KEYWORDS[name]}={_escaped(text)}"


def _dotted(number: bytes) -> str:
    """Write an object identifier."""
    arcs, arc = [], 0
    for byte in number[:_NUMBER_BYTES_MAX]:
        if byte == 0x80 and not arc:
            raise ValueError("an object identifier in another form than DER has")
        arc = arc << 7 | byte & 0x7F
        if byte < 0x80:
            arcs.append(arc)
            arc = 0
    if arc or not arcs or len(number) > _NUMBER_BYTES_MAX:
        raise ValueError("an object identifier that is empty, cut off, or too long")
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, (first, arcs[0] - 40 * first, *arcs[1:])))


def _text(tag: int, value: bytes) -> str | None:
    """Read a string; None: it is of no type that Java writes as text. Broken ones OpenSSL has refused before."""
    if tag == _UTF8_STRING:
        return value.decode()
    if tag == _BMP_STRING:
        text = value.decode("utf-16-be", "ignore")
        if 2 * len(text) != len(value):  # a surrogate, or half a character
            raise ValueError("a BMPString with what is no character of one")
        return text
    return value.decode("latin-1") if tag in _LATIN_1_STRINGS else None


def _escaped(text: str) -> str:
    text = re.sub(r'[,=+<>#;"\\]', r"\\\g<0>", text).replace("\0", r"\00")
    middle = text.strip(" \r")
    before, _, after = text.partition(middle) if middle else (text, "", "")
    before, after = ("".join(f"\\{blank}" for blank in blanks) for blanks in (before, after))
    return before + middle + after
