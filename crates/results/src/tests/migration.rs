//! Files of earlier versions: nothing in them is lost, and what later versions added is filled.

use rusqlite::{Connection, params};
use tempfile::TempDir;

use super::fixture::*;
use super::judged::recorded;
use crate::record::{CellRecord, sha256_hex};
use crate::store::of_version;
use crate::{MergeReport, RunFilter, Store, Study};

/// A run as a program of version 2 of the tables wrote it, in the columns that matter here.
fn insert_as_before(connection: &Connection, record: &CellRecord) {
    let load = &record.measured().unwrap().load;
    connection
        .execute(
            "INSERT INTO runs (id, study, study_hash, stack, workload, block, repeat, position, started_at, cell_s, \
             outcome, ground, bytes_per_second, record) VALUES (?, ?, ?, ?, ?, ?, 0, 0, ?, 1.0, 'measured', 'emulated', ?, ?)",
            params![
                record.content_id().unwrap(),
                record.study,
                record.study_hash,
                record.stack,
                record.workload,
                record.block,
                record.started_at,
                load.bytes_per_second(),
                serde_json::to_string(record).unwrap()
            ],
        )
        .unwrap();
    let run = connection.last_insert_rowid();
    for (depth, layer) in record.measured().unwrap().layers.iter().enumerate() {
        connection
            .execute(
                "INSERT INTO layer_metrics (run, depth, layer, role, machine, trace_point) VALUES (?, ?, ?, ?, ?, 'blktrace')",
                params![run, depth as i64, layer.layer, layer.role.stored(), layer.machine.stored()],
            )
            .unwrap();
    }
    let latency = &load.operations.values().next().unwrap().latency;
    let latency = serde_json::to_value(latency).unwrap();
    for name in ["latency:write", "q2c"] {
        connection
            .execute("INSERT INTO histograms VALUES (?, 0, ?, ?)", params![run, name, latency.as_str()])
            .unwrap();
    }
}

#[test]
fn latencies_move_into_a_table_of_their_own() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("old.sqlite");
    let connection = Connection::open(&path).unwrap();
    of_version(&connection, 3).unwrap();
    let run = record("ext3/kvm/hdd", 0, MIB);
    insert_as_before(&connection, &run);
    drop(connection);
    let store = Store::open(&path).unwrap();
    let reader = store.reader().unwrap();
    let (class, kept): (String, String) = reader
        .query_row("SELECT class, histogram FROM latencies", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    let left: String = reader.query_row("SELECT name FROM histograms", [], |row| row.get(0)).unwrap();
    let expected =
        serde_json::to_value(&run.measured().unwrap().load.operations.values().next().unwrap().latency);
    assert_eq!((class.as_str(), left.as_str()), ("write", "q2c"));
    assert_eq!(Some(kept.as_str()), expected.unwrap().as_str());
}

#[test]
fn a_file_of_version_2_is_brought_forward_with_nothing_lost() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("old.sqlite");
    let records = [
        record("ext3/kvm:cache=writethrough/raw:size=3G/jfs/hdd:size=8G", 0, MIB),
        record("ext3/kvm/hdd", 0, 2 * MIB),
        record("what is no stack today", 1, MIB),
    ];
    let connection = Connection::open(&path).unwrap();
    of_version(&connection, 2).unwrap();
    for record in &records {
        insert_as_before(&connection, record);
    }
    // A record that does not read back must not keep the others from being read.
    connection.execute("UPDATE runs SET record = '{' WHERE number = 3", []).unwrap();
    drop(connection);

    let store = Store::open(&path).unwrap();
    for (number, record) in (1..).zip(&records[..2]) {
        assert_eq!(store.run(number).unwrap().record, *record);
    }
    assert_eq!(store.numbers(&RunFilter::default()).unwrap(), [1, 2, 3]);
    let reader = store.reader().unwrap();
    let texts = |sql: &str| -> Vec<String> {
        reader
            .prepare(sql)
            .unwrap()
            .query_map([], |row| row.get(0))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap()
    };
    insta::assert_snapshot!(texts(
        "SELECT concat_ws(' | ', stack, guest_fs, crossing, crossings, cache, device, guest_memory_bytes, image, \
         image_options, host_fs, medium, medium_options, medium_bytes) FROM stacks"
    ).join("\n"), @r#"
    ext3/kvm/hdd | ext3 | kvm | 1 | none | virtio-blk | 268435456 | hdd |  | 17179869184
    ext3/kvm:cache=writethrough/raw:size=3G/jfs/hdd:size=8G | ext3 | kvm | 1 | writethrough | virtio-blk | 268435456 | raw | size=3G | jfs | hdd | size=8G | 8589934592
    what is no stack today
    "#);
    insta::assert_snapshot!(texts(
        "SELECT concat_ws(' | ', workload, engine, load, options, files, file_bytes, scale_factor) FROM workloads"
    ).join("\n"), @r#"fio:seq-write | fio | seq-write |  | 64 | 8388608 | 0.1"#);
    assert_eq!(
        texts("SELECT coalesce(machine_options, 'none') FROM stacks"),
        ["", "", "none"],
        "what is no stack has no options"
    );
    assert_eq!(texts("SELECT value FROM workload_options WHERE name = 'bs'"), ["8192"]);
    assert_eq!(texts("SELECT run || ' ' || working_set_bytes FROM loads"), ["1 536870912", "2 536870912"]);
    assert_eq!(
        texts(
            "SELECT run || ' ' || round(d2c_mean_ns / 1000) || ' ' || times_checked FROM layer_metrics WHERE role = 'disk' AND run < 3"
        ),
        ["1 7.0 0", "2 7.0 0"]
    );
    // Opened again, nothing changes.
    drop(reader);
    drop(store);
    assert_eq!(Store::open(&path).unwrap().numbers(&RunFilter::default()).unwrap(), [1, 2, 3]);
}

#[test]
fn studies_of_an_old_file_are_summed_up() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("old.sqlite");
    let connection = Connection::open(&path).unwrap();
    of_version(&connection, 17).unwrap();
    let stacks = ["ext3/kvm/hdd", "ext3/kvm/raw/xfs/hdd"];
    let study = Study::new("made-up", "", stacks.map(Into::into).to_vec(), vec!["fio:seq-write".into()]);
    let study = Study { scale: Some("quick".to_owned()), ..study };
    let kept = recorded("0123456789abcdef", study);
    for (hash, text) in
        [(kept.hash.as_str(), serde_json::to_string(&kept).unwrap()), ("damaged", "{".to_owned())]
    {
        connection
            .execute("INSERT INTO studies (hash, name, record) VALUES (?, 'made-up', ?)", params![hash, text])
            .unwrap();
    }
    drop(connection);
    let asked = |sql: &str| -> String {
        Connection::open(&path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let mut store = Store::open(&path).unwrap();
    assert_eq!(
        asked("SELECT group_concat(stack || ' ' || runs || ' ' || scale || ' ' || ground) FROM cell"),
        "ext3/kvm/hdd 0 quick emulated,ext3/kvm/raw/xfs/hdd 0 quick emulated"
    );
    for (stack, bytes) in stacks.into_iter().zip([2 * MIB, MIB]) {
        store.keep(record(stack, 0, bytes)).unwrap();
    }
    assert_eq!(
        asked("SELECT round(ratio, 9) || ' ' || round(change_percent, 9) || ' ' || told FROM comparison"),
        "0.5 -50.0 without-interval"
    );
    // Of a study that does not read back nothing can be said, and nothing is.
    assert_eq!(asked("SELECT group_concat(study_hash || run) FROM outdated"), "damaged0");
    drop(store);
    assert_eq!(
        asked(
            "SELECT group_concat(DISTINCT study_hash) FROM (SELECT study_hash FROM cell UNION ALL SELECT study_hash FROM pair)"
        ),
        kept.hash
    );
}

#[test]
fn latencies_of_cells_are_chosen_anew_in_a_file_of_version_22() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("old.sqlite");
    let mut store = Store::open(&path).unwrap();
    let study = Study::new("made-up", "", vec!["ext3/hdd".into()], vec!["fio:seq-write".into()]);
    store.save_study(&recorded("0123456789abcdef", study)).unwrap();
    store.keep(record("ext3/hdd", 0, MIB)).unwrap();
    drop(store);
    let connection = Connection::open(&path).unwrap();
    for column in ["arm_seek_ns", "arm_rotation_ns", "arm_transfer_ns"] {
        connection.execute(&format!("ALTER TABLE layer_metrics DROP COLUMN {column}"), []).unwrap();
    }
    connection.execute_batch("UPDATE cells SET latency_class = 'of most'; PRAGMA user_version = 22").unwrap();
    drop(Store::open(&path).unwrap());
    let class: String = connection.query_row("SELECT latency_class FROM cell", [], |row| row.get(0)).unwrap();
    assert_eq!(class, "write");
}

#[test]
fn an_old_file_merges_into_a_new_one() {
    let folder = TempDir::new().unwrap();
    let old = folder.path().join("old.sqlite");
    let connection = Connection::open(&old).unwrap();
    of_version(&connection, 2).unwrap();
    insert_as_before(&connection, &record("ext3/kvm/hdd", 0, MIB));
    drop(connection);
    let before = std::fs::read(&old).unwrap();
    let mut new = Store::open(&folder.path().join("new.sqlite")).unwrap();
    let report = new.merge(&old).unwrap();
    assert!(std::fs::read(&old).unwrap() == before, "the other file was changed");
    drop(Store::open_read_only(&old).unwrap());
    assert_eq!((report.added, report.known), (1, 0));
    let stacks: i64 = new
        .reader()
        .unwrap()
        .query_row("SELECT count(*) FROM stacks WHERE guest_fs = 'ext3'", [], |r| r.get(0))
        .unwrap();
    assert_eq!(stacks, 1);
}

#[test]
fn a_copy_of_an_old_file_has_the_same_runs() {
    let folder = TempDir::new().unwrap();
    let (ours, copy) = (folder.path().join("ours.sqlite"), folder.path().join("copy.sqlite"));
    let connection = Connection::open(&ours).unwrap();
    of_version(&connection, 2).unwrap();
    let run = record("ext3/kvm/hdd", 0, MIB);
    insert_as_before(&connection, &run);
    // As an earlier program wrote it, which did not know a field yet.
    let mut text = serde_json::to_value(&run).unwrap();
    text.as_object_mut().unwrap().remove("untraced_twin").unwrap();
    let text = text.to_string();
    let id = sha256_hex(text.as_bytes());
    assert_ne!(id, run.content_id().unwrap());
    connection.execute("UPDATE runs SET record = ?, id = ?", [&text, &id]).unwrap();
    drop(connection);
    std::fs::copy(&ours, &copy).unwrap();
    let mut store = Store::open(&ours).unwrap();
    assert_eq!(store.merge(&copy).unwrap(), MergeReport { added: 0, known: 1, ..MergeReport::default() });
    // Taken over, it keeps its text and its name.
    let mut new = Store::open(&folder.path().join("new.sqlite")).unwrap();
    assert_eq!(new.merge(&copy).unwrap(), MergeReport { added: 1, known: 0, ..MergeReport::default() });
    assert_eq!((new.run(1).unwrap().id, new.run(1).unwrap().record), (id, run.clone()));
    assert_eq!(new.merge(&ours).unwrap(), MergeReport { added: 0, known: 1, ..MergeReport::default() });
    // A file that a program merged which named the run by what it wrote itself.
    let mut merged_before = Store::open(&folder.path().join("merged.sqlite")).unwrap();
    merged_before.insert(&run).unwrap();
    assert_eq!(
        merged_before.merge(&copy).unwrap(),
        MergeReport { added: 0, known: 1, ..MergeReport::default() }
    );
}

#[test]
fn scripts_and_natives_are_taken_apart_too() {
    let folder = TempDir::new().unwrap();
    let mut store = Store::open(&folder.path().join("r.sqlite")).unwrap();
    for (stack, workload) in [
        ("ext4:mount=noatime/hdd", "wml:fileserver:scale=0.02"),
        ("xfs/kvm:sched=none/raw/ext4:block=1k/hdd:size=4G:sched=bfq", "wml:dbserver:scale=0.02:threads=20"),
        ("ext4/kvm/qcow2/xfs/tcg/raw/xfs/hdd", "wml:mailserver"),
    ] {
        store.insert(&CellRecord { workload: workload.into(), ..record(stack, 0, MIB) }).unwrap();
    }
    let reader = store.reader().unwrap();
    let texts = |sql: &str| -> Vec<String> {
        reader
            .prepare(sql)
            .unwrap()
            .query_map([], |row| row.get(0))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap()
    };
    insta::assert_snapshot!(texts(
        "SELECT concat_ws(' | ', stack, 'guest ' || guest_fs || ' ' || guest_fs_options, crossing, crossings, 'host ' || host_fs || ' ' || \
         host_fs_options, guest_sched, host_sched) FROM stacks"
    ).join("\n"), @r#"
    ext4/kvm/qcow2/xfs/tcg/raw/xfs/hdd | guest ext4  | kvm | 2 | host xfs 
    ext4:mount=noatime/hdd | guest ext4 mount=noatime | 0
    xfs/kvm:sched=none/raw/ext4:block=1k/hdd:size=4G:sched=bfq | guest xfs  | kvm | 1 | host ext4 block=1k | none | bfq
    "#);
    insta::assert_snapshot!(texts(
        "SELECT concat_ws(' ', workload, name, value) FROM workload_options WHERE name IN ('script:nthreads', 'threads', 'scale', 'runtime')"
    ).join("\n"), @r#"
    wml:dbserver:scale=0.02:threads=20 runtime 10
    wml:dbserver:scale=0.02:threads=20 scale 0.02
    wml:dbserver:scale=0.02:threads=20 script:nthreads 200
    wml:dbserver:scale=0.02:threads=20 threads 20
    wml:fileserver:scale=0.02 runtime 10
    wml:fileserver:scale=0.02 scale 0.02
    wml:fileserver:scale=0.02 script:nthreads 50
    wml:mailserver runtime 10
    wml:mailserver scale 0.1
    wml:mailserver script:nthreads 16
    "#);
}

#[test]
fn reading_an_old_file_leaves_it_as_it_is() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("old.sqlite");
    let connection = Connection::open(&path).unwrap();
    of_version(&connection, 2).unwrap();
    let run = record("ext3/kvm/hdd", 0, MIB);
    insert_as_before(&connection, &run);
    drop(connection);
    let before = std::fs::read(&path).unwrap();
    let mut permissions = std::fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&path, permissions).unwrap();

    let store = Store::open_read_only(&path).unwrap();
    assert_eq!(store.run(1).unwrap().record, run);
    assert_eq!(store.path(), path);
    // A second connection, and those of several threads, read the same.
    let latencies: i64 =
        store.reader().unwrap().query_row("SELECT count(*) FROM latencies", [], |row| row.get(0)).unwrap();
    assert_eq!(latencies, 1);
    let cells = store.cells(run.study_hash.as_deref().unwrap()).unwrap();
    assert_eq!(cells.len(), 1);
    let copy = store.reader().unwrap().path().map(std::path::PathBuf::from).unwrap();
    assert!(copy.exists() && copy != path);
    drop(store);
    assert!(!copy.exists(), "the copy goes with the store");
    assert!(std::fs::read(&path).unwrap() == before, "the file was changed");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was left beside it");
    let version: i64 =
        Connection::open(&path).unwrap().query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 2);
}
