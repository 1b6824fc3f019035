//! x
fn main() {
    for p in nestor_disk::profiles::PROFILES {
        println!("{}", nestor_disk::check(p).unwrap().to_text());
    }
}
