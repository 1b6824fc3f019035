use rand::SeedableRng;
use rand::rngs::StdRng;

use super::{read, run, thread};
use crate::{Distribution, RandomVariable, Value};

const DRAWS: u32 = 200_000;

/// The random variable of that definition.
fn variable(definition: &str) -> RandomVariable {
    let script = read(&format!("{definition}\n{}", thread("flowop read name=r,filesetname=docs,iosize=$x")));
    match &run(&script).processes[0].threads[0].flowops[0].io_bytes {
        Value::Drawn(variable) => (**variable).clone(),
        Value::Fixed(value) => panic!("{value} is not drawn"),
    }
}

/// Mean and variance of many draws are within `tolerance` of the expected, as a share of them.
fn check(definition: &str, mean: f64, variance: f64, tolerance: f64) {
    let variable = variable(definition);
    let mut random = StdRng::seed_from_u64(1);
    let distribution = &variable.distribution;
    let draws: Vec<f64> = (0..DRAWS).map(|_| distribution.draw(&mut random)).collect();
    let count = f64::from(DRAWS);
    let drawn_mean = draws.iter().sum::<f64>() / count;
    let drawn_variance = draws.iter().map(|x| (x - drawn_mean).powi(2)).sum::<f64>() / (count - 1.0);
    let scale = mean.abs().max(variance.sqrt());
    assert!((drawn_mean - mean).abs() <= tolerance * scale, "{definition}: mean {drawn_mean}, not {mean}");
    assert!(
        (drawn_variance - variance).abs() <= 4.0 * tolerance * variance,
        "{definition}: variance {drawn_variance}, not {variance}"
    );
    assert!(
        (variable.mean() - mean).abs() <= 1e-9 * scale,
        "{definition}: formula {}, not {mean}",
        variable.mean()
    );
}

fn custom(kind: &str, parameters: &str) -> String {
    format!("set $x=cvar(type={kind},parameters={parameters})")
}

#[test]
fn custom_variables_have_the_mean_and_variance_of_their_formulas() {
    check(&custom("cvar-uniform", "lower:10;upper:70"), 40.0, 300.0, 0.01);
    check(&custom("cvar-exponential", "mean:50"), 50.0, 2500.0, 0.01);
    check(&custom("cvar-gamma", "mean:16384;gamma:1.5"), 16384.0, 16384.0_f64.powi(2) / 1.5, 0.01);
    check(&custom("cvar-erlang", "shape:4;rate:20"), 20.0, 100.0, 0.01);
    check(&custom("cvar-normal", "mean:-3;sigma:2"), -3.0, 4.0, 0.01);
    check(
        &custom("cvar-triangular", "lower:1;upper:9;mode:2"),
        4.0,
        (1.0 + 81.0 + 4.0 - 9.0 - 2.0 - 18.0) / 18.0,
        0.01,
    );
    // exp(mu + s²/2) and (exp(s²) - 1) exp(2 mu + s²)
    let (s2, mu) = (0.25_f64, 2.0_f64);
    let lognormal = (s2.exp() - 1.0) * (2.0 * mu + s2).exp();
    check(&custom("cvar-lognormal", "shape:0.5;scale:2"), (mu + s2 / 2.0).exp(), lognormal, 0.02);
    // Γ(1 + 1/2) = √π / 2, Γ(2) = 1
    let root = std::f64::consts::PI.sqrt();
    check(&custom("cvar-weibull", "shape:2;scale:10"), 5.0 * root, 100.0 * (1.0 - root * root / 4.0), 0.01);
}

#[test]
fn parameters_that_are_not_given_have_the_values_of_filebench() {
    let distribution = |kind: &str| variable(&format!("set $x=cvar(type={kind})")).distribution;
    assert_eq!(
        distribution("cvar-gamma"),
        Distribution::Gamma { shape: 1.5, scale: 4096.0 / 1.5, offset: 0.0 }
    );
    assert_eq!(distribution("cvar-erlang"), Distribution::Erlang { shape: 1, mean: 1.0 });
    assert_eq!(distribution("cvar-exponential"), Distribution::Exponential { mean: 1.0 });
    assert_eq!(distribution("cvar-lognormal"), Distribution::LogNormal { shape: 1.0, scale: 1.0 });
    assert_eq!(distribution("cvar-normal"), Distribution::Normal { mean: 0.0, sigma: 1.0 });
    assert_eq!(
        distribution("cvar-triangular"),
        Distribution::Triangular { lower: 0.0, upper: 1.0, mode: 0.5 }
    );
    assert_eq!(distribution("cvar-uniform"), Distribution::Uniform { lower: 0.0, upper: 1.0 });
    assert_eq!(distribution("cvar-weibull"), Distribution::Weibull { shape: 1.0, scale: 1.0 });
}

#[test]
fn classic_variables_lie_above_their_min_with_their_mean() {
    check("set $x=randvar(type=uniform,min=100,mean=400)", 400.0, 600.0_f64.powi(2) / 12.0, 0.01);
    // Shape g, scale (mean - min) / g.
    check(
        "define randvar name=$x,type=gamma,min=1k,mean=5k,gamma=2000",
        5120.0,
        4096.0_f64.powi(2) / 2.0,
        0.01,
    );
    check("define randvar name=$x,mean=60,gamma=500", 60.0, 7200.0, 0.02);
    // Without a mean, the shape is the mean.
    check("define randvar name=$x,type=gamma,min=0,gamma=100", 0.1, 0.1, 0.02);
}

#[test]
fn a_table_is_drawn_by_its_shares() {
    let table = "type=tabular,randtable={{25,0,0},{75,10,30}}";
    // Mean 15; second moment 0.75 (20² + 20²/12).
    let variance = 0.75 * (400.0 + 400.0 / 12.0) - 225.0;
    check(&format!("set $x=randvar({table})"), 15.0, variance, 0.01);
    // With a mean of its own it is stretched: three times as wide.
    check(&format!("set $x=randvar({table},mean=45)"), 45.0, 9.0 * variance, 0.01);
    // With a min as well it is moved.
    check(&format!("set $x=randvar({table},mean=20,min=5)"), 20.0, variance, 0.01);
    assert_eq!(
        variable("set $x=randvar(type=tabular,min=7,randtable={{100,5,5}})").distribution,
        Distribution::Constant(7.0)
    );
}

#[test]
fn draws_are_rounded_and_then_limited() {
    let mut random = StdRng::seed_from_u64(2);
    let rounded = variable("set $x=randvar(type=uniform,mean=5000,round=512)");
    assert!((0..1000).all(|_| rounded.draw(&mut random) % 512.0 == 0.0));
    let limited = variable("set $x=cvar(type=cvar-normal,parameters=mean:0;sigma:100,min=-5,max=50)");
    let draws: Vec<f64> = (0..1000).map(|_| limited.draw(&mut random)).collect();
    assert!(draws.iter().all(|x| (-5.0..=50.0).contains(x)));
    assert!(draws.contains(&-5.0) && draws.contains(&50.0));
}

#[test]
fn the_parameters_of_a_variable_are_what_they_are_at_the_run() {
    let text = format!(
        "set $m=100\nset $x=randvar(type=uniform,mean=$m)\nset $x.min=20\n{}",
        thread("flowop read name=r,filesetname=docs,iosize=$x")
            .replace("run 1", "set $m=60\nset $x.min=40\nrun 1")
    );
    let script = read(&text);
    let Value::Drawn(variable) = &run(&script).processes[0].threads[0].flowops[0].io_bytes else { panic!() };
    assert_eq!(variable.distribution, Distribution::Uniform { lower: 40.0, upper: 80.0 });
    let echo = read(
        "set $x=randvar(type=gamma,mean=9k,gamma=800)\necho \"mean $x.mean, $x.gamma, $x.type, $x.min, $x.meaning\"",
    );
    assert_eq!(
        echo.actions,
        [crate::Action::Echo("mean 9216, 800, gamma, 0, randvar $x.meaning".to_owned())]
    );
}
