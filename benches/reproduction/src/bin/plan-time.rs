//! draft
use weir_reproduction::ppipe::published::*;
fn main() {
    let p = Published::from_env().unwrap();
    for plan in p.plans().unwrap() {
        let problem = p
            .problem(
                &plan.models,
                &plan.weights,
                Cluster::ALL[0].classes(25, 75),
                plan.scheme().unwrap(),
            )
            .unwrap();
        #[allow(clippy::disallowed_methods)]
        let t = std::time::Instant::now();
        let r = weir_policy::plan::solve(&problem);
        match r {
            Ok(s) => println!(
                "{} {} published {} ours {} rel {:.2e} {:.3?} devices {:?}",
                plan.algorithm,
                plan.models[0],
                plan.objective,
                s.objective,
                s.objective / plan.objective - 1.0,
                t.elapsed(),
                s.devices
            ),
            Err(e) => println!("{e}"),
        }
    }
    for c in Cluster::ALL {
        for w in [WEIGHTS_2019, WEIGHTS_2021] {
            for plan in p.plans().unwrap() {
                let problem = p
                    .problem(&plan.models, &w, c.classes(25, 75), plan.scheme().unwrap())
                    .unwrap();
                #[allow(clippy::disallowed_methods)]
                let t = std::time::Instant::now();
                let r = weir_policy::plan::solve(&problem);
                match r {
                    Ok(s) => println!(
                        "{} {} {} {} gap {:.1e} {:.3?} {:?}",
                        c.name(),
                        plan.algorithm,
                        plan.models[0],
                        s.objective,
                        s.bound / s.objective - 1.0,
                        t.elapsed(),
                        s.devices
                    ),
                    Err(e) => println!("{e}"),
                }
            }
        }
    }
}
