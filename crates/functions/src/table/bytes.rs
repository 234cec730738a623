//! Functions of BYTEA: encodings, single bytes and bits, digests.

use super::entry::{Entry, Output};
use crate::bytes::codes::Coded;
use crate::bytes::single::{Does, Single};

pub(super) const ENTRIES: &[Entry] = &[
    Entry::scalar("encode", Output::NoMoreThanGiven, || Coded::new(true).into())
        .postgresql(&["encode"])
        .doc("The text of bytes in an encoding: hex, base64 or escape.")
        .example(r"encode('\x4142'::bytea, 'hex')", "4142"),
    Entry::scalar("decode", Output::NoMoreThanGiven, || Coded::new(false).into())
        .postgresql(&["decode"])
        .doc("The bytes that a text shows in an encoding: hex, base64 or escape.")
        .example("decode('QUI=', 'base64')", r"\x4142"),
    Entry::scalar("convert_from", Output::NoMoreThanGiven, || Single::new(Does::ConvertFrom).into())
        .postgresql(&["convert_from"])
        .doc("The text that bytes are in an encoding, which is UTF8.")
        .example(r"convert_from('\x4142'::bytea, 'UTF8')", "AB"),
    Entry::scalar("convert_to", Output::NoMoreThanGiven, || Single::new(Does::ConvertTo).into())
        .postgresql(&["convert_to"])
        .doc("The bytes of a text in an encoding, which is UTF8.")
        .example("convert_to('AB', 'UTF8')", r"\x4142"),
    Entry::scalar("get_byte", Output::Small, || Single::new(Does::GetByte).into())
        .postgresql(&["get_byte"])
        .doc("The byte at a place, counted from 0.")
        .example(r"get_byte('\x01ff'::bytea, 1)", "255"),
    Entry::scalar("set_byte", Output::NoMoreThanGiven, || Single::new(Does::SetByte).into())
        .postgresql(&["set_byte"])
        .doc("The bytes with another byte at a place, counted from 0.")
        .example(r"set_byte('\x0102'::bytea, 1, 255)", r"\x01ff"),
    Entry::scalar("get_bit", Output::Small, || Single::new(Does::GetBit).into())
        .postgresql(&["get_bit"])
        .doc("The bit at a place, counted from 0 and from the least bit of each byte.")
        .example(r"get_bit('\x02'::bytea, 1)", "1"),
    Entry::scalar("set_bit", Output::NoMoreThanGiven, || Single::new(Does::SetBit).into())
        .postgresql(&["set_bit"])
        .doc("The bytes with another bit at a place, counted from 0 and from the least bit of each byte.")
        .example(r"set_bit('\x00'::bytea, 3, 1)", r"\x08"),
    Entry::scalar("bit_count", Output::Small, || Single::new(Does::BitCount).into())
        .postgresql(&["bit_count"])
        .doc("The number of bits that are set.")
        .example(r"bit_count('\xff01'::bytea)", "9"),
    Entry::datafusion("md5", Output::Small)
        .postgresql(&["md5"])
        .doc("The MD5 digest of a text or of bytes, in hexadecimal digits.")
        .example("md5('abc')", "900150983cd24fb0d6963f7d28e17f72"),
    Entry::datafusion("sha224", Output::Small)
        .postgresql(&["sha224"])
        .doc("The SHA-224 digest of a text or of bytes.")
        .example("left(encode(sha224('abc'), 'hex'), 8)", "23097d22"),
    Entry::datafusion("sha256", Output::Small)
        .postgresql(&["sha256"])
        .doc("The SHA-256 digest of a text or of bytes.")
        .example("left(encode(sha256('abc'), 'hex'), 8)", "ba7816bf"),
    Entry::datafusion("sha384", Output::Small)
        .postgresql(&["sha384"])
        .doc("The SHA-384 digest of a text or of bytes.")
        .example("left(encode(sha384('abc'), 'hex'), 8)", "cb00753f"),
    Entry::datafusion("sha512", Output::Small)
        .postgresql(&["sha512"])
        .doc("The SHA-512 digest of a text or of bytes.")
        .example("left(encode(sha512('abc'), 'hex'), 8)", "ddaf35a1"),
    Entry::datafusion("digest", Output::Small)
        .doc(
            "The digest of a text or of bytes by an algorithm: md5, sha224, sha256, sha384, sha512, blake2s, \
             blake2b or blake3.",
        )
        .example("left(encode(digest('abc', 'sha256'), 'hex'), 8)", "ba7816bf"),
];
