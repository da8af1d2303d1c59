//! `fulmar bench hotpath` without the program around it: prints the summary.

use fulmar_bench::allocation::Counting;
use fulmar_bench::hotpath::{HotpathOptions, run};

#[global_allocator]
static ALLOCATOR: Counting<mimalloc::MiMalloc> = Counting(mimalloc::MiMalloc);

fn main() {
    let report = run(&HotpathOptions::default());
    for (name, metric) in &report.summary {
        println!("{name:40} {metric:?}");
    }
    println!("{:#?}", report.ratio);
    println!(
        "limit {} fraction {:?}",
        report.limit, report.fraction_of_limit
    );
    println!(
        "allocations {:?} verdict {}",
        report.allocations_per_event, report.verdict
    );
}
