//! `nestor predict --verify` as a user meets it: a prediction, then the real run on an emulated host.

mod predict_store;
mod support;

use nestor_results::Store;
use predict_store::{at, surface_of};
use serde_json::Value;
use support::{Sandbox, alone, can_run};

const FROM: &str = "ext4/null";
const TO: &str = "xfs/null";
/// 50 MiB.
const LOAD: &str = "fio:seq-write:scale=0.01";

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn a_prediction_is_held_against_the_real_run() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let store = sandbox.text("results.sqlite");
    let said = |arguments: &[&str]| -> Value {
        let output = sandbox.nestor([arguments, &["--store", &store, "--json"]].concat()).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {errors}"))
    };
    let predict = ["predict", "--workload", LOAD, "--from", FROM, "--to", TO];
    let reference = said(&["run", FROM, LOAD, "-n", "1", "--trace", "layers"]);
    let environment = &reference[0]["environment"];
    let processors = environment["machines"][0]["accelerator"].as_str().unwrap();
    // Where it runs by itself here: in virtual time, or in real time with KVM.
    let place = environment["ground"].as_str().unwrap();
    // Nothing tells yet what the other file system does; surfaces of both, which are the same here, do.
    let unknown = said(&predict);
    assert!(unknown[0]["answer"]["rate"].is_null(), "{unknown}");
    let outstanding = number(&unknown[0]["question"]["shape"]["outstanding"]);
    let depth = (outstanding.round() as u32).clamp(2, 256);
    let mut file = Store::open(&sandbox.path("results.sqlite")).unwrap();
    for stack in [FROM, TO] {
        let surface = surface_of(stack, depth, &[4096, 65_536, 1 << 20]);
        file.insert(&at(place, processors, surface)).unwrap();
    }
    drop(file);

    let answers = said(&[&predict[..], &["--verify", "--trace", "layers"]].concat());
    let (answer, verified) = (&answers[0]["answer"], &answers[0]["verified"]);
    assert!(answer["rate"].is_number(), "{answers}");
    let rate = number(&answer["rate"]);
    let reached = number(&answers[0]["question"]["reference"]["rate"]);
    assert!((rate / reached - 1.0).abs() < 1e-6, "the surfaces are the same: {answer}");
    let found = number(&verified["found"]);
    assert!(found > 0.0 && (number(&verified["error"]) - (rate / found - 1.0)).abs() < 1e-9, "{verified}");
    let (low, high) = (number(&answer["interval"]["low"]), number(&answer["interval"]["high"]));
    assert_eq!(verified["within"], low <= found && found <= high);
    // The runs are kept, and are what was found.
    let numbers: Vec<i64> = verified["runs"].as_array().unwrap().iter().filter_map(Value::as_i64).collect();
    assert_eq!(numbers.len(), 3, "{verified}");
    let file = Store::open(&sandbox.path("results.sqlite")).unwrap();
    let logs = numbers.iter().map(|number| {
        let record = file.run(*number).unwrap().record;
        assert_eq!((record.stack.as_str(), record.workload.as_str()), (TO, LOAD));
        record.measured().unwrap().load.bytes_per_second().ln()
    });
    let mean = (logs.sum::<f64>() / 3.0).exp();
    assert!((mean / found - 1.0).abs() < 1e-9, "{mean} {verified}");
    assert_eq!(verified["other_place"], Value::Null, "{verified}");
    // What each layer was off by adds up to what the whole was.
    let residual = number(&verified["residual_ms"]);
    let predicted_ms = number(&verified["found_ms"]) * found / rate;
    assert!((residual - (predicted_ms - number(&verified["found_ms"]))).abs() < 1e-9, "{verified}");
    assert_eq!(verified["spread_like"], FROM);
    let layers = verified["layers"].as_array().unwrap();
    assert!(layers.iter().any(|layer| layer["layer"].as_str().unwrap().starts_with("xfs")), "{verified}");
    let off: f64 =
        layers.iter().map(|layer| number(&layer["predicted_ms"]) - number(&layer["found_ms"])).sum();
    assert!((off - residual).abs() < 1e-9 * predicted_ms.max(1.0), "{off} {verified}");
    assert_eq!(sandbox.left_behind(), Vec::<String>::new());
}
