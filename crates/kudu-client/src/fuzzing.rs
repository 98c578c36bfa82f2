//! Entry points of the fuzz targets: everything that a hostile server can send, without a network, and scan tokens.
//!
//! Each function takes any bytes and must end without a panic and without reserving much more memory than it was given.
//! It returns whether anything was accepted.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::Array;
use arrow_schema::{Field, Schema as ArrowSchema};
use bytes::Bytes;
use futures::FutureExt;
use prost::Message;
use rustls::pki_types::CertificateDer;

use crate::data_type::DataType;
use crate::error::{Error, Result};
use crate::location_cache::tablets_from_pb;
use crate::partition::PartitionSchema;
use crate::pb;
use crate::pb::master::*;
use crate::pb::rpc::*;
use crate::pb::tserver::*;
use crate::rpc::credentials::{Credentials, JwtSource};
use crate::rpc::frame::read_response;
use crate::rpc::negotiation::{NegotiationOptions, negotiate};
use crate::scan::columnar::{ProjectedColumn, decode_columnar, decode_rowwise};
use crate::schema::Schema;

/// Frames from the socket, and what they can contain: errors, the catalogue, answers to writes.
pub fn frames(mut bytes: &[u8]) -> bool {
    let given = bytes.len();
    let mut accepted = false;
    while let Some(Ok(Some(response))) = read_response(&mut bytes, 1 << 20).now_or_never() {
        let held = response.body.len() + response.sidecars.iter().map(Vec::len).sum::<usize>();
        assert!(held <= given, "{held} bytes out of {given}");
        accepted |= answers(response.body, response.sidecars).is_ok();
    }
    accepted
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
        let _ = tablets_from_pb(&answer, Duration::from_millis(answer.ttl_millis.unwrap_or(0).into()));
    }
    let _ = ConnectToMasterResponse::decode(body.clone());
    let _ = ListTablesResponse::decode(body.clone());
    if let Ok(answer) = ScanResponse::decode(body.clone())
        && let Some(block) = &answer.columnar_data
    {
        let (schema, columns) = projection(&[7, 8, 9, 12], 0b1010);
        check(decode_columnar(&schema, &columns, block, sidecars));
    }
    let answer = GetTableSchemaResponse::decode(body)?;
    let schema = Schema::from_pb(&answer.schema.unwrap_or_default())?;
    let partitions = PartitionSchema::from_pb(&schema, &answer.partition_schema.unwrap_or_default())?;
    let _ = partitions.hash_schema_at(b"key");
    Ok(())
}

/// What a server sends between greeting and connection context. The first byte chooses the client's credentials and
/// options; if its highest bit is unset, the rest is put into well-formed frames first.
pub fn negotiation(bytes: &[u8]) -> bool {
    let Some((&choice, mut rest)) = bytes.split_first() else { return false };
    let has = |bit: u8| choice >> bit & 1 == 1;
    let mut sent = Vec::new();
    if has(7) {
        sent = rest.to_vec();
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
            sent.extend((frame.len() as u32).to_be_bytes());
            sent.extend(frame);
        }
    }
    let trusted = if has(0) { vec![CertificateDer::from(vec![0x30, 3, 2, 1, 1])] } else { Vec::new() };
    let credentials = Credentials::new(
        "me".into(),
        None,
        has(1).then(|| JwtSource::new(|| Ok("a.b.c".into()))),
        trusted.clone(),
    );
    if has(2) {
        credentials.grant(Some(SignedToken::default()), trusted);
    }
    let options = NegotiationOptions {
        require_encryption: has(3),
        is_loopback: has(4),
        encrypt_loopback: has(5),
        offer_token: has(6),
    };
    let server = tokio::io::join(&sent[..], tokio::io::sink());
    let outcome = negotiate(server, "kudu.example", &credentials, options).now_or_never();
    outcome.expect("the negotiation does not wait for more than the server sends").is_ok()
}

/// An answer to a scan, column by column or row by row.
///
/// The bytes are the number of columns and sidecars, which columns are nullable, the type of each column, the sidecars
/// (each after two bytes of length), and the block's message.
pub fn blocks(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let mut take = |count: usize| {
        let (taken, behind) = rest.split_at(count.min(rest.len()));
        rest = behind;
        taken
    };
    let &[count, nullable] = take(2) else { return false };
    let types = take(usize::from(count & 7)).to_vec();
    let mut sidecars = Vec::new();
    for _ in 0..usize::from(count >> 3 & 15) {
        let &[low, high] = take(2) else { break };
        sidecars.push(take(u16::from_le_bytes([low, high]).into()).to_vec());
    }
    let message = take(usize::MAX);
    let (schema, columns) = projection(&types, nullable);
    if count & 0x80 == 0 {
        let Ok(block) = ColumnarRowBlock::decode(message) else { return false };
        check(decode_columnar(&schema, &columns, &block, sidecars))
    } else {
        let Ok(block) = RowwiseRowBlock::decode(message) else { return false };
        check(decode_rowwise(&schema, &columns, &block, &sidecars))
    }
}

/// A scan token that somebody else has serialized.
pub fn tokens(bytes: &[u8]) -> bool {
    crate::scan::token::read_arbitrary(bytes)
}

fn projection(types: &[u8], nullable: u8) -> (Arc<ArrowSchema>, Vec<ProjectedColumn>) {
    let attributes = |code: u8| pb::ColumnTypeAttributes {
        precision: None,
        scale: Some(i32::from(code >> 5)),
        length: None,
    };
    let columns: Vec<ProjectedColumn> = types
        .iter()
        .enumerate()
        .map(|(index, &code)| ProjectedColumn {
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
fn check(batch: Result<arrow_array::RecordBatch>) -> bool {
    for column in batch.iter().flat_map(arrow_array::RecordBatch::columns) {
        column.to_data().validate_full().expect("an accepted batch is valid");
    }
    batch.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::frame::tests::encode_response;
    use crate::schema::Column;

    fn framed(body: &impl Message) -> Vec<u8> {
        encode_response(&ResponseHeader { call_id: 1, ..Default::default() }, &body.encode_to_vec())
    }

    /// The body of a negotiation message, as [`negotiation`] takes it.
    fn message(is_error: u8, content: &impl Message) -> Vec<u8> {
        let body = content.encode_to_vec();
        [&[is_error][..], &(body.len() as u16).to_le_bytes(), &body].concat()
    }

    fn catalogue() -> GetTableSchemaResponse {
        let columns = vec![
            Column::new("host", DataType::String).key(),
            Column::new("time", DataType::UnixtimeMicros).key(),
            Column::new("value", DataType::Decimal { precision: 20, scale: 2 }).nullable(),
        ];
        let schema = Schema::new(columns).unwrap().to_pb().unwrap();
        let hash = crate::HashPartition::new(["host"], 4).seed(42).to_pb();
        let range = pb::RangeSchema { columns: crate::partition::identifiers(&["time".into()]) };
        let partitions =
            pb::PartitionSchema { hash_schema: vec![hash], range_schema: Some(range), ..Default::default() };
        GetTableSchemaResponse {
            schema: Some(schema),
            partition_schema: Some(partitions),
            ..Default::default()
        }
    }

    fn hello(authentication: AuthenticationType, features: Vec<i32>) -> Negotiate {
        Negotiate {
            step: STEP_NEGOTIATE,
            supported_features: features,
            sasl_mechanisms: vec![SaslMechanism { mechanism: "PLAIN".into() }],
            authn_types: vec![authentication],
            ..Default::default()
        }
    }

    /// Name, bytes, and whether the target accepts them.
    fn seeds() -> Vec<(&'static str, Vec<u8>, bool)> {
        let sasl = || AuthenticationType { sasl: Some(Empty {}), ..Default::default() };
        let token = AuthenticationType { token: Some(Empty {}), ..Default::default() };
        let success = Negotiate { step: STEP_SASL_SUCCESS, ..Default::default() };
        let refusal = ErrorStatus { message: "no".into(), code: Some(15), ..Default::default() };
        let record = Bytes::from_static(b"\x16\x03\x03\x00\x04\x02\x00\x00\x00");
        let handshake =
            Negotiate { step: STEP_TLS_HANDSHAKE, tls_handshake: Some(record), ..Default::default() };
        let sidecars = |data, variable, validity| ColumnarColumn {
            data_sidecar: Some(data),
            varlen_data_sidecar: variable,
            non_null_bitmap_sidecar: validity,
        };
        let columnar = ColumnarRowBlock {
            columns: vec![sidecars(0, None, None), sidecars(1, Some(2), Some(3))],
            num_rows: Some(2),
        };
        let rowwise =
            RowwiseRowBlock { num_rows: Some(1), rows_sidecar: Some(0), indirect_data_sidecar: Some(1) };
        let sidecar = |bytes: &[u8]| [&(bytes.len() as u16).to_le_bytes()[..], bytes].concat();
        let row = [&7i64.to_le_bytes()[..], &0u64.to_le_bytes(), &2u64.to_le_bytes(), &[0]].concat();
        vec![
            ("frames/catalogue", framed(&catalogue()), true),
            ("frames/refusal", framed(&refusal), false),
            (
                "negotiation/plain",
                [&[0][..], &message(0, &hello(sasl(), vec![1])), &message(0, &success)].concat(),
                true,
            ),
            (
                "negotiation/refused",
                [&[0][..], &message(0, &hello(sasl(), vec![1])), &message(1, &refusal)].concat(),
                false,
            ),
            (
                "negotiation/tls",
                [&[0][..], &message(0, &hello(sasl(), vec![1, 2])), &message(0, &handshake)].concat(),
                false,
            ),
            (
                "negotiation/token",
                [&[0x47][..], &message(0, &hello(token, vec![1, 2])), &message(0, &handshake)].concat(),
                false,
            ),
            ("negotiation/raw", [&[0x80][..], &framed(&hello(sasl(), vec![1]))].concat(), false),
            (
                "blocks/columnar",
                [
                    vec![2 | 4 << 3, 0b10, 7, 8],
                    sidecar(&[1; 16]),
                    sidecar(&[0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0]),
                    sidecar(b"abc"),
                    sidecar(&[0b11]),
                    columnar.encode_to_vec(),
                ]
                .concat(),
                true,
            ),
            (
                "blocks/rowwise",
                [vec![0x80 | 2 | 2 << 3, 0b10, 7, 8], sidecar(&row), sidecar(b"ab"), rowwise.encode_to_vec()]
                    .concat(),
                true,
            ),
            (
                "tokens/column",
                b"\x08\x01\x12\x01x\x1a\x0c\x0a\x01t\x22\x07\x12\x01v\x18\x07\x28\x01".to_vec(),
                true,
            ),
        ]
    }

    /// Each seed is accepted or refused as intended. `KUDU_WRITE_SEEDS=1` writes the files.
    #[test]
    fn seeds_reach_their_targets() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
        for (name, bytes, accepted) in seeds() {
            let target = match name.split('/').next() {
                Some("frames") => frames,
                Some("negotiation") => negotiation,
                Some("tokens") => tokens,
                _ => blocks,
            };
            assert_eq!(target(&bytes), accepted, "{name}");
            let path = folder.join(name);
            if std::env::var_os("KUDU_WRITE_SEEDS").is_some() {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, &bytes).unwrap();
            }
            assert_eq!(std::fs::read(&path).unwrap(), bytes, "{name} as kept in fuzz/seeds");
        }
    }
}
