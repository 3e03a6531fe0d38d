//! `train-lengths FILE.json`: trains the nets that predict lengths of descriptions, and writes gate and experts.

use std::io::Write as _;
use std::process::ExitCode;

use weir_reproduction::goodserve::lengths::compare::{Predictor, predictors};

fn main() -> ExitCode {
    let fail = |reason: &str| {
        // Standard error may be closed.
        let _ = writeln!(std::io::stderr(), "train-lengths: {reason}");
        ExitCode::FAILURE
    };
    let Some(path) = std::env::args_os().nth(1) else {
        return fail("name the file that is written");
    };
    let all = predictors();
    let experts = all.iter().find(|one| one.name == "experts");
    let Some(Predictor::Experts(experts)) = experts.map(|one| &one.predictor) else {
        return fail("the experts could not be trained");
    };
    match serde_json::to_vec(experts).map(|bytes| std::fs::write(path, bytes)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => fail(&error.to_string()),
        Err(error) => fail(&error.to_string()),
    }
}
