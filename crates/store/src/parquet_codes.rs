//! A column chunk of codes: the dictionary's page and one page of codes, as
//! Parquet lays them out. Written here, since the library would hash and look
//! up the text of every row once more, which was half of a file's cost.

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, EncodingMask};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use crate::parquet_file::{STATISTICS_BYTES_MAX, ZSTD_LEVEL};
use crate::tables::DictionaryBuffer;

/// Codes packed at a time; the format wants whole groups of eight.
const GROUP: usize = 8;

/// Equal codes in a row from which they are written as one run.
const RUN_MIN: usize = 8;

/// Encodes the chunk of a required text column: `codes` name values of
/// `dictionary`, which may hold more than are named.
pub fn encode_chunk(
    codes: &[i32],
    dictionary: &DictionaryBuffer,
    column: &ColumnDescPtr,
) -> Result<(Bytes, ColumnCloseResult)> {
    let mut compressor = zstd::bulk::Compressor::new(ZSTD_LEVEL)?;
    let mut sink = TrackedWrite::new(Vec::new());
    let mut pages = SerializedPageWriter::new(&mut sink);
    let values = plain_values(dictionary);
    let page = Page::DictionaryPage {
        buf: compressor.compress(&values)?.into(),
        num_values: dictionary.distinct() as u32,
        encoding: Encoding::PLAIN,
        is_sorted: false,
    };
    let first = pages.write_page(CompressedPage::new(page, values.len()))?;
    let packed = pack(codes, bit_width(dictionary.distinct()));
    let page = Page::DataPage {
        buf: compressor.compress(&packed)?.into(),
        num_values: codes.len() as u32,
        encoding: Encoding::RLE_DICTIONARY,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    };
    let second = pages.write_page(CompressedPage::new(page, packed.len()))?;
    let bytes = sink.into_inner()?;
    let encodings = [Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY];
    let uncompressed = first.uncompressed_size + second.uncompressed_size;
    let mut metadata = ColumnChunkMetaData::builder(column.clone())
        .set_compression(Compression::ZSTD(Default::default()))
        .set_encodings_mask(EncodingMask::new_from_encodings(encodings.iter()))
        .set_num_values(codes.len() as i64)
        .set_total_compressed_size(bytes.len() as i64)
        .set_total_uncompressed_size(uncompressed as i64)
        .set_dictionary_page_offset(Some(0))
        .set_data_page_offset(second.offset as i64);
    if let Some(statistics) = statistics(codes, dictionary) {
        metadata = metadata.set_statistics(statistics);
    }
    let close = ColumnCloseResult {
        bytes_written: bytes.len() as u64,
        rows_written: codes.len() as u64,
        metadata: metadata.build()?,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    Ok((bytes.into(), close))
}

/// Each value led by its length, 32 bits little-endian.
fn plain_values(dictionary: &DictionaryBuffer) -> Vec<u8> {
    let mut out = Vec::new();
    for code in 0..dictionary.distinct() as i32 {
        let value = dictionary.value(code);
        out.extend_from_slice(&(value.len() as u32).to_le_bytes());
        out.extend_from_slice(value);
    }
    out
}

/// Least and greatest of the values that are named; none when one is too long
/// to stand in a file's footer.
fn statistics(codes: &[i32], dictionary: &DictionaryBuffer) -> Option<Statistics> {
    let mut named = vec![false; dictionary.distinct()];
    for &code in codes {
        named[code as usize] = true;
    }
    let of_named = || (0..named.len()).filter(|&code| named[code]);
    let value = |code: usize| dictionary.value(code as i32);
    let least = of_named().map(value).min()?;
    let greatest = of_named().map(value).max()?;
    if least.len().max(greatest.len()) > STATISTICS_BYTES_MAX {
        return None;
    }
    let bound = |bytes: &[u8]| Some(ByteArray::from(bytes.to_vec()));
    let distinct = of_named().count() as u64;
    Some(Statistics::new(
        bound(least),
        bound(greatest),
        Some(distinct),
        Some(0),
        false,
    ))
}

/// Bits of the greatest code.
fn bit_width(distinct: usize) -> u32 {
    let greatest = distinct.saturating_sub(1) as u64;
    u64::BITS - greatest.leading_zeros()
}

/// The width, then runs of equal codes and groups of packed ones.
fn pack(codes: &[i32], width: u32) -> Vec<u8> {
    let mut out = vec![width as u8];
    let mut at = 0;
    let mut packed_from = 0;
    while at < codes.len() {
        let run = run_length(&codes[at..]);
        // What is packed before a run must be whole groups: lend it the first
        // codes of the run.
        let lent = (GROUP - (at - packed_from) % GROUP) % GROUP;
        if run < RUN_MIN + lent {
            at += run;
            continue;
        }
        pack_groups(&codes[packed_from..at + lent], width, &mut out);
        varint(((run - lent) as u64) << 1, &mut out);
        let bytes = codes[at].to_le_bytes();
        out.extend_from_slice(&bytes[..width.div_ceil(8) as usize]);
        at += run;
        packed_from = at;
    }
    pack_groups(&codes[packed_from..], width, &mut out);
    out
}

fn run_length(codes: &[i32]) -> usize {
    codes
        .iter()
        .position(|code| *code != codes[0])
        .unwrap_or(codes.len())
}

/// Groups of eight, each `width` bytes; the last is filled up with zeros.
fn pack_groups(codes: &[i32], width: u32, out: &mut Vec<u8>) {
    if codes.is_empty() {
        return;
    }
    let groups = codes.len().div_ceil(GROUP);
    varint((groups as u64) << 1 | 1, out);
    let mut bits = 0_u64;
    let mut filled = 0;
    let filling = std::iter::repeat_n(&0, groups * GROUP - codes.len());
    for &code in codes.iter().chain(filling) {
        bits |= (code as u64) << filled;
        filled += width;
        while filled >= 8 {
            out.push(bits as u8);
            bits >>= 8;
            filled -= 8;
        }
    }
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// An error of a writer that did not take part.
pub(crate) fn defect(text: &str) -> ParquetError {
    ParquetError::General(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_packed_as_the_format_says() {
        // The format's own example: 0 to 7 in three bits are 88 C6 FA.
        let codes = [0, 1, 2, 3, 4, 5, 6, 7];
        assert_eq!(pack(&codes, 3), [3, 0b11, 0x88, 0xc6, 0xfa]);
        // A hundred times 4 in three bits: a run of 100, then the value.
        assert_eq!(pack(&[4; 100], 3), [3, 200, 1, 4]);
        // One value: no bits at all, and a run needs no byte for it.
        assert_eq!(pack(&[0; 9], 0), [0, 18]);
        // Two codes lend six of the run's to their group.
        let mut codes = vec![1, 0];
        codes.extend([1; 20]);
        assert_eq!(pack(&codes, 1), [1, 0b11, 0b1111_1101, 28, 1]);
        assert_eq!(
            [bit_width(1), bit_width(2), bit_width(3), bit_width(257)],
            [0, 1, 2, 9]
        );
    }
}
