//! `weir import`: graphs from the configuration of other programs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::init::write_new;
use crate::args::ImportFrigate;
use crate::error::UserError;
use crate::frigate::{self, Files, Imported};
use crate::zoo::Zoo;
use crate::{catalog, output};

/// A file that is written.
struct Written {
    path: PathBuf,
    text: String,
    /// Description of a file for its owner alone; `None` for the graph.
    secret: Option<&'static str>,
}

/// Writes a graph and files with passwords, and lists what was not taken over.
///
/// # Errors
/// A [`UserError`] where the file is no configuration, or a file is there already or cannot be written. Problems of the graph.
pub(crate) fn frigate(args: &ImportFrigate, zoo: &Zoo) -> anyhow::Result<()> {
    let config = args.file.display().to_string();
    let text = weir_files::read_text(&args.file, frigate::MAX_BYTES)
        .map_err(|error| UserError::new(format!("{config}: {error}")))?;
    let password = |number: usize| match number {
        0 => "camera-password.txt".to_owned(),
        number => format!("camera-password-{}.txt", number + 1),
    };
    let files = Files {
        config: &config,
        passwords: &password,
        mqtt: "mqtt-password.txt",
    };
    let imported = frigate::import(&text, &files).map_err(|reason| {
        let hint = "it must be the configuration of Frigate, such as config.yml";
        UserError::new(format!("{config}: {reason}\n  {hint}"))
    })?;
    let written = written(&imported, &args.out, &files);
    let mut paths = BTreeSet::new();
    if let Some(twice) = written.iter().find(|file| !paths.insert(&file.path)) {
        return Err(UserError::new(format!(
            "{} would be the graph and a file with secrets beside it: give the graph another name, such as --out site.toml",
            twice.path.display()
        ))
        .into());
    }
    if let Some(there) = written.iter().find(|file| file.path.symlink_metadata().is_ok()) {
        return Err(UserError::new(format!(
            "{} exists and was not changed: name a graph in another folder with --out",
            there.path.display()
        ))
        .into());
    }
    for file in &written {
        write_new(&file.path, &file.text, file.secret.is_some())?;
    }
    report(&imported, &written, &config)?;
    catalog::load(&args.out, zoo)?;
    output::remark(&next(&imported, &args.out));
    Ok(())
}

/// The files to write, the graph last: it names the others.
fn written(imported: &Imported, out: &Path, files: &Files<'_>) -> Vec<Written> {
    let secret = |path: PathBuf, text: String, what: &'static str| Written {
        path,
        text,
        secret: Some(what),
    };
    let passwords = imported.passwords.iter().enumerate();
    let mut written: Vec<Written> = passwords
        .map(|(number, password)| {
            let path = out.with_file_name((files.passwords)(number));
            secret(path, format!("{password}\n"), "a password of cameras")
        })
        .collect();
    if let Some(password) = &imported.mqtt_password {
        let path = out.with_file_name(files.mqtt);
        written.push(secret(
            path,
            format!("{password}\n"),
            "the password of the broker",
        ));
    }
    if !imported.variables.is_empty() {
        let variables = imported.variables.iter();
        let lines = variables.map(|(name, value)| format!("{name}='{}'\n", value.replace('\'', r"'\''")));
        let what = "variables of the graph with secrets of addresses";
        written.push(secret(out.with_extension("env"), lines.collect(), what));
    }
    written.push(Written {
        path: out.to_owned(),
        text: imported.graph.clone(),
        secret: None,
    });
    written
}

fn report(imported: &Imported, written: &[Written], config: &str) -> anyhow::Result<()> {
    for file in written {
        let path = file.path.display();
        match file.secret {
            Some(what) => output::say(&format!("{path}: {what}; only you can read it"))?,
            None => {
                let counted = [
                    (imported.cameras, "camera"),
                    (imported.zones, "zone"),
                    (imported.rules, "rule"),
                ];
                let counted = counted.map(|(count, noun)| super::counted(count, noun));
                output::say(&format!("{path}: {}", counted.join(", ")))?;
            }
        }
    }
    for remark in &imported.renamed {
        output::say(&format!("{config}:{remark}"))?;
    }
    let count = imported.left_out.len();
    if count > 0 {
        output::say(&format!(
            "not taken over: {}, each with the nearest thing in Weir",
            super::counted(count, "setting")
        ))?;
    }
    for remark in &imported.left_out {
        output::say(&format!("{config}:{remark}"))?;
    }
    Ok(())
}

/// The commands that come next.
fn next(imported: &Imported, out: &Path) -> String {
    let mut steps = Vec::new();
    if !imported.environment.is_empty() {
        steps.push(format!("set {}, as for Frigate", imported.environment.join(", ")));
    }
    if !imported.variables.is_empty() {
        steps.push(format!(
            "set -a; . {}; set +a",
            Path::new(".").join(out.with_extension("env")).display()
        ));
    }
    let graph = out.display();
    steps.push("weir models pull yolox-nano".to_owned());
    steps.push(format!("weir check {graph}"));
    steps.push(format!("weir serve {graph}"));
    format!("next:\n  {}", steps.join("\n  "))
}
