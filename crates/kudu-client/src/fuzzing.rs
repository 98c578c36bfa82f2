//! Doors for the fuzz targets: everything a hostile server can say, without a network.
//!
//! Each function takes whatever bytes there are and must come to an end, without a
//! panic and without reserving much more than it was given.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::Array;
use arrow_schema::{Field, Schema as ArrowSchema};
use bytes::Bytes;
use futures::FutureExt;
use prost::Message;
use rustls::pki_types::CertificateDer;

use crate::error::{Error, Result};
use crate::partition::PartitionSchema;
use crate::pb;
use crate::pb::master::*;
use crate::pb::rpc::*;
use crate::pb::tserver::*;
use crate::rpc::credentials::Credentials;
use crate::rpc::frame::read_response;
use crate::rpc::negotiation::{Terms, negotiate};
use crate::scan::columnar::{Projected, decode_columnar, decode_rowwise};
use crate::schema::{DataType, Schema};
use crate::tablets::tablets_of;

/// Frames as they come from the socket, and what they may hold: errors, the catalogue, answers to writes.
pub fn frames(mut bytes: &[u8]) {
    let given = bytes.len();
    while let Some(Ok(Some(response))) = read_response(&mut bytes, 1 << 20).now_or_never() {
        let held = response.body.len() + response.sidecars.iter().map(Vec::len).sum::<usize>();
        assert!(held <= given, "{held} bytes out of {given}");
        let _ = answers(response.body, response.sidecars);
    }
}

fn answers(body: Bytes, sidecars: Vec<Vec<u8>>) -> Result<()> {
    if let Ok(status) = ErrorStatus::decode(body.clone()) {
        let _ = Error::from_rpc(&status).to_string();
    }
    if let Ok(error) = pb::ServiceError::decode(body.clone()) {
        let _ = (Error::from_master(&error).can_retry(), Error::from_tablet_server(&error).can_retry());
    }
    if let Ok(answer) = WriteResponse::decode(body.clone()) {
        for row in &answer.per_row_errors {
            let _ = Error::from_row(&row.error).to_string();
        }
    }
    if let Ok(answer) = GetTableLocationsResponse::decode(body.clone()) {
        let _ = tablets_of(&answer, Duration::from_millis(answer.ttl_millis.unwrap_or(0).into()));
    }
    let _ = ConnectToMasterResponse::decode(body.clone());
    let _ = ListTablesResponse::decode(body.clone());
    let _ = Token::decode(body.clone());
    if let Ok(answer) = ScanResponse::decode(body.clone())
        && let Some(block) = &answer.columnar_data
    {
        let (schema, columns) = projection(&[7, 8, 9, 12], 0b1010);
        check(decode_columnar(&schema, &columns, block, sidecars));
    }
    let answer = GetTableSchemaResponse::decode(body)?;
    let schema = Schema::from_pb(&answer.schema.unwrap_or_default())?;
    let partitions = PartitionSchema::from_pb(&schema, &answer.partition_schema.unwrap_or_default())?;
    let _ = partitions.hash_at(b"key");
    Ok(())
}

/// What a server says between greeting and connection context. The first byte chooses what the client holds and
/// demands; with its highest bit unset the rest is put into well-formed frames first.
pub fn negotiation(bytes: &[u8]) {
    let Some((&choice, mut rest)) = bytes.split_first() else { return };
    let has = |bit: u8| choice >> bit & 1 == 1;
    let mut words = Vec::new();
    if has(7) {
        words = rest.to_vec();
    } else {
        // Each message: a byte that says whether it is an error, two of length, its bytes.
        while let Some((&[is_error, low, high], behind)) = rest.split_first_chunk::<3>() {
            let length = usize::from(u16::from_le_bytes([low, high])).min(behind.len());
            let (body, behind) = behind.split_at(length);
            rest = behind;
            let header =
                ResponseHeader { call_id: -33, is_error: Some(is_error & 1 == 1), ..Default::default() };
            let mut frame = Vec::new();
            let _ = header.encode_length_delimited(&mut frame);
            prost::encoding::encode_varint(body.len() as u64, &mut frame);
            frame.extend_from_slice(body);
            words.extend((frame.len() as u32).to_be_bytes());
            words.extend(frame);
        }
    }
    let trusted = if has(0) { vec![CertificateDer::from(vec![0x30, 3, 2, 1, 1])] } else { Vec::new() };
    let credentials = Credentials::new("me".into(), None, has(1).then(|| "a.b.c".into()), trusted.clone());
    if has(2) {
        credentials.grant(Some(SignedToken::default()), trusted);
    }
    let terms = Terms {
        require_encryption: has(3),
        is_loopback: has(4),
        encrypt_loopback: has(5),
        offer_token: has(6),
    };
    let server = tokio::io::join(&words[..], tokio::io::sink());
    let outcome = negotiate(server, "kudu.example", &credentials, terms).now_or_never();
    assert!(outcome.is_some(), "the negotiation waits for more than the server will ever say");
}

/// An answer to a scan, column by column or row by row.
///
/// First the projection: how many columns, which may be NULL, the type of each; then how many rows; then the
/// sidecars, each behind two bytes of length; then the block's message.
pub fn blocks(bytes: &[u8]) {
    let mut rest = bytes;
    let mut take = |count: usize| {
        let (taken, behind) = rest.split_at(count.min(rest.len()));
        rest = behind;
        taken
    };
    let &[count, nullable] = take(2) else { return };
    let types = take(usize::from(count & 7)).to_vec();
    let mut sidecars = Vec::new();
    for _ in 0..usize::from(count >> 3 & 15) {
        let &[low, high] = take(2) else { break };
        sidecars.push(take(u16::from_le_bytes([low, high]).into()).to_vec());
    }
    let message = take(usize::MAX);
    let (schema, columns) = projection(&types, nullable);
    if count & 0x80 == 0 {
        if let Ok(block) = ColumnarRowBlock::decode(message) {
            check(decode_columnar(&schema, &columns, &block, sidecars));
        }
    } else if let Ok(block) = RowwiseRowBlock::decode(message) {
        check(decode_rowwise(&schema, &columns, &block, &sidecars));
    }
}

fn projection(types: &[u8], nullable: u8) -> (Arc<ArrowSchema>, Vec<Projected>) {
    let attributes = |code: u8| pb::ColumnTypeAttributes {
        precision: None,
        scale: Some(i32::from(code >> 5)),
        length: None,
    };
    let columns: Vec<Projected> = types
        .iter()
        .enumerate()
        .map(|(index, &code)| Projected {
            name: index.to_string(),
            data_type: DataType::from_pb(i32::from(code & 31), Some(&attributes(code))),
            is_nullable: nullable >> (index % 8) & 1 == 1,
        })
        .collect();
    let fields: Vec<Field> = columns
        .iter()
        .map(|column| Field::new(&column.name, column.data_type.arrow_type(), column.is_nullable))
        .collect();
    (Arc::new(ArrowSchema::new(fields)), columns)
}

/// What was accepted must be what Arrow calls valid.
fn check(batch: Result<arrow_array::RecordBatch>) {
    for column in batch.iter().flat_map(arrow_array::RecordBatch::columns) {
        column.to_data().validate_full().expect("an accepted batch is valid");
    }
}
