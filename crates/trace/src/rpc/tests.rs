use super::*;

const MOUNTSTATS: &str = "\
device sysfs mounted on /sys with fstype sysfs
device 10.78.1.1:/ mounted on /run/nestor/1/mount-0 with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,rsize=262144,wsize=262144,namlen=255,acregmin=3,acregmax=60,acdirmin=30,acdirmax=60,hard,proto=tcp,timeo=600,retrans=2,sec=sys
\tage:\t12
\timpl_id:\tname='',domain='',date='0,0'
\tcaps:\tcaps=0xffbffff,wtmult=512,dtsize=262144,bsize=0,namlen=255
\tnfsv4:\tbm0=0xfdffbfff,bm1=0x40f9be3e,bm2=0x60803,acl=0x3,sessions,pnfs=not configured
\tsec:\tflavor=1,pseudoflavor=1
\tevents:\t1 2 0 0 1 2 3 4 0 0 0 0 0 1 0 2 1 0 0 0 0 0 0 0 0 0 0
\tbytes:\t0 4096 0 0 0 4096 0 1
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\txprt:\ttcp 784 0 1 0 0 13 13 0 13 0 2 0 0
\tper-op statistics
\t        NULL: 1 1 0 44 24 0 0 0 0
\t        READ: 0 0 0 0 0 0 0 0 0
\t       WRITE: 5 5 0 21400 900 1 7 9 3
\t      COMMIT: 2 2 0 500 300 0 3 4 0

device tmpfs mounted on /tmp with fstype tmpfs
";

#[test]
fn a_client_counts_calls_and_bytes_of_its_mount() {
    let counts = RpcCounts::of_client(MOUNTSTATS, Path::new("/run/nestor/1/mount-0")).unwrap();
    let write = Calls { calls: 5, sent_bytes: 21400, received_bytes: 900, response_ms: 7, errors: 3 };
    assert_eq!(counts.failed_writes(), (3, 7));
    assert_eq!(counts.iter().collect::<Vec<_>>().last(), Some(&("WRITE", write)));
    assert_eq!((counts.calls(), counts.calls_of("COMMIT"), counts.calls_of("READ")), (8, 2, 0));
    let missing = RpcCounts::of_client(MOUNTSTATS, Path::new("/tmp")).unwrap_err();
    assert_eq!(missing.to_string(), "no NFS is mounted at /tmp");
    assert!(counts.since(&counts).iter().next().is_none());
}

#[test]
fn a_client_counts_what_its_programs_asked_for() {
    let used = MountUse::of_client(MOUNTSTATS, Path::new("/run/nestor/1/mount-0")).unwrap();
    let expected =
        MountUse { cached_written_bytes: 4096, server_written_bytes: 4096, fsyncs: 2, ..MountUse::default() };
    assert_eq!(used, expected);
    assert_eq!(used.since(&used), MountUse::default());
}

#[test]
fn each_procedure_is_of_one_kind_and_only_sessions_are_of_none() {
    let kind = CallKind::of;
    assert_eq!(["READ", "WRITE", "COMMIT"].map(kind), [CallKind::Read, CallKind::Write, CallKind::Commit]);
    let metadata = ["LOOKUP", "GETATTR", "ACCESS", "CREATE", "MKDIR", "READDIRPLUS", "OPEN", "CLOSE"];
    assert!(metadata.map(kind).iter().all(|kind| *kind == CallKind::Metadata));
    assert_eq!(["NULL", "SEQUENCE", "EXCHANGE_ID"].map(kind), [CallKind::Session; 3]);
}

#[test]
fn a_server_counts_by_the_numbers_of_procedures() {
    let counters = "rc 0 9 3\nfh 0 0 0 0 0\nproc3 22 1 2 0 0 0 0 0 7 0 0 0 0 0 0 0 0 0 0 0 0 0 3\n\
                        proc4 2 1 30\nproc4ops 76 0 0 0 4 0 5 0 0 0 6\n";
    let counted = |version| {
        let counts = RpcCounts::of_server(counters, version).unwrap();
        counts.iter().map(|(name, calls)| format!("{name} {}", calls.calls)).collect::<Vec<_>>()
    };
    assert_eq!(counted(RpcVersion::V3), ["COMMIT 3", "GETATTR 2", "NULL 1", "WRITE 7"]);
    assert_eq!(counted(RpcVersion::V4), ["ACCESS 4", "COMMIT 5", "GETATTR 6"]);
    let calls = RpcCounts::of_server_calls(counters, RpcVersion::V4).unwrap();
    assert_eq!((calls.calls_of("COMPOUND"), calls.calls_of("NULL"), calls.calls()), (30, 1, 31));
    assert_eq!(RpcCounts::of_server_calls(counters, RpcVersion::V3).unwrap().calls_of("WRITE"), 7);
    let none = RpcCounts::of_server("rc 0 0 0\n", RpcVersion::V3).unwrap_err();
    assert_eq!(none.to_string(), "the counters of the NFS server lack a line `proc3`");
    assert!(RpcCounts::of_server("proc3 22 x", RpcVersion::V3).is_err());
}

#[test]
fn numbers_of_operations_are_those_of_the_protocol() {
    let number =
        |name: &str| OPERATIONS_4.iter().position(|known| *known == name).unwrap() + FIRST_OPERATION_4;
    // RFC 8881, section 16.2.3 (`nfs_opnum4`) and RFC 7862, section 12.2.
    let known = [("WRITE", 38), ("EXCHANGE_ID", 42), ("SEQUENCE", 53), ("ALLOCATE", 59), ("CLONE", 71)];
    assert!(known.iter().all(|(name, expected)| number(name) == *expected));
    assert_eq!(number("REMOVEXATTR"), 75);
}
