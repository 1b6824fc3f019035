use nestor_disk::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let stop = StopHandle::new().unwrap();
    stop.stop_on_signals().unwrap();
    let o = ServeOptions {
        profile: a[1].clone(),
        size_bytes: a[2].parse().unwrap(),
        offset_bytes: 0,
        socket: a[3].clone().into(),
        data: a[4].clone().into(),
        control: Some(a[5].clone().into()),
        log: a.get(6).map(Into::into),
        write_cache: None,
        timing: true,
        durable: false,
        serial: "nestor".into(),
        once: false,
        end_with_parent: false,
        stop,
    };
    if let Err(e) = serve(o) {
        eprintln!("{e}");
        std::process::exit(1)
    }
}
