//! What machines and programs in them answer.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use nestor_disk::log::StampReader;
use nestor_disk_server::request::{Command, GuestMemory, Parsed, Piece, Segment};
use nestor_machine::bounds::check_answer;
use nestor_machine::message::{Answer, Envelope, Request, decode_frame};
use nestor_statistics::LatencyHistogram;
use nestor_statistics::latency_sum::LatencySum;
use nestor_workload::{Ended, Place, StepOutput, SurfacePoint, Target, Workload};
use vm_memory::{Bytes, GuestAddress};

/// A stored histogram: as text, as the bytes that the text stands for, or as what is compressed in them.
pub fn latency(data: &[u8]) {
    let Some((how, data)) = data.split_first() else { return };
    let text = match how % 3 {
        0 => String::from_utf8_lossy(data).into_owned(),
        1 => BASE64.encode(data),
        _ => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            let Ok(body) = encoder.write_all(data).and_then(|()| encoder.finish()) else { return };
            let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
            BASE64.encode([&0x1c84_9314_u32.to_be_bytes()[..], &length.to_be_bytes(), &body].concat())
        }
    };
    let mut sum = LatencySum::default();
    let added = sum.add(&text).and_then(|()| sum.add(&text)).is_ok();
    let Ok(read) = serde_json::from_value::<LatencyHistogram>(text.into()) else {
        assert!(!added, "what cannot be read was added");
        return;
    };
    use_all(&read);
    let mut merged = read.clone();
    merged.merge(&read);
    use_all(&merged);
    if added {
        assert_eq!(sum.finish().summary(), merged.clone().compacted().summary());
    }
    merged.merge(&merged.clone());
    use_all(&merged);
    let again = serde_json::to_value(&merged).expect("a text");
    assert!(serde_json::from_value::<LatencyHistogram>(again).is_ok());
}

/// All that is asked of a histogram.
fn use_all(histogram: &LatencyHistogram) {
    let summary = histogram.summary();
    assert_eq!(summary.map(|summary| summary.count), (histogram.count() > 0).then(|| histogram.count()));
    let quantiles = [0.0, 0.001, 0.5, 0.9, 0.99, 0.999_999, 1.0].map(|q| histogram.quantile_ns(q));
    assert!(quantiles.is_sorted(), "{quantiles:?}");
    assert_eq!(histogram.buckets().map(|(_, count)| count).sum::<u64>(), histogram.count());
    assert_eq!(histogram.clone().compacted(), *histogram);
    let mut more = histogram.clone();
    more.record_many_ns(5_000, u64::MAX);
    more.record_ns(u64::MAX);
    more.merge(histogram);
    let _ = (more.summary(), more.quantile_ns(1.0), more.compacted().count());
}

/// What an agent answers and what it is asked.
pub fn agent_frame(data: &[u8]) {
    if let Ok(envelope) = decode_frame::<Envelope<Answer>>(data) {
        let _ = check_answer(&envelope.body);
    }
    let _ = decode_frame::<Envelope<Request>>(data);
}

/// What a program printed, and after a zero byte what lies in its files.
pub fn output(workload: &str, data: &[u8]) {
    let workload = Workload::parse(workload).expect("a workload of ours");
    let place = Place { target: Target::Directory("/top".to_owned()), scratch: "/scratch".to_owned() };
    let mut parts = data.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned());
    let stdout = parts.next().unwrap_or_default();
    let names = workload.measure(&place, 1).output_files;
    let output = StepOutput {
        ended: Ended::Code(0),
        stdout,
        stderr: String::new(),
        files: names.into_iter().zip(parts).collect(),
    };
    let _ = workload.check_preparation(&output);
    let Ok(result) = workload.parse_output(&output) else { return };
    let _ = (result.bytes_per_second(), result.operations_per_second(), result.bytes());
    let _ = SurfacePoint::of(&result);
    for operation in result.operations.values() {
        let _ = (operation.latency.summary(), operation.bytes_per_second(result.elapsed_ns));
    }
}

/// The marks that a disk found, and the operations that they are held against.
pub fn stamps(data: &[u8]) {
    if let Ok(reader) = StampReader::new(data, "fuzz") {
        reader.for_each(drop);
    }
    let _ = nestor_correlate::stamps::read_operations(data);
}

/// A request of a guest's: 512 bytes of its memory, then its descriptors, each an address of 16 bits, a length of 16 and a
/// byte that says who writes.
pub fn virtio(data: &[u8]) {
    const MEMORY_BYTES: usize = 1 << 16;
    const SECTORS: u64 = 1000;
    let memory = GuestMemory::from_ranges(&[(GuestAddress(0), MEMORY_BYTES)]).expect("memory");
    let (front, chain) = data.split_at(data.len().min(512));
    memory.write_slice(front, GuestAddress(0)).expect("it has room");
    let pieces = chain.chunks_exact(5).map(|d| Piece {
        segment: Segment {
            // Some beyond the memory's end, some near that of all addresses.
            address: GuestAddress(match u16::from_le_bytes([d[0], d[1]]) {
                low @ 0..0xff00 => u64::from(low) * 2,
                high => u64::MAX - u64::from(high & 0xff),
            }),
            bytes: match u16::from_le_bytes([d[2], d[3]]) {
                low @ 0..0xff00 => u32::from(low),
                high => u32::MAX - u32::from(high & 0xff),
            },
        },
        device_writes: d[4] & 1 == 1,
    });
    let mut parsed = Parsed::default();
    if let Ok(Command::Read { sector, sectors } | Command::Write { sector, sectors }) =
        parsed.parse(pieces, &memory, SECTORS)
    {
        assert!(sectors > 0 && sector + u64::from(sectors) <= SECTORS);
        let bytes: u64 = parsed.data.iter().map(|segment| u64::from(segment.bytes)).sum();
        assert_eq!(bytes, u64::from(sectors) * 512);
    }
}
