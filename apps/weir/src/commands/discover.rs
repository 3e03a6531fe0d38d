//! `weir discover`: cameras of a network, and the addresses of their streams.

use std::path::Path;
use std::time::Duration;

use crate::args::Discover;
use crate::discover::{self, Found, Login};
use crate::error::UserError;
use crate::output;

/// Bytes of a file with a password.
const MAX_PASSWORD_FILE: u64 = 4_096;

/// Asks cameras for their streams, and prints them.
///
/// # Errors
/// A [`UserError`] where a password cannot be read, the search cannot be sent, or nothing answers.
pub(crate) fn discover(args: &Discover) -> anyhow::Result<()> {
    if args.addresses.len() > discover::MAX_ADDRESSES {
        let most = discover::MAX_ADDRESSES;
        return Err(UserError::new(format!("at most {most} addresses can be asked at once")).into());
    }
    let login = match (&args.user, &args.password_file) {
        (Some(name), Some(file)) => Some(Login {
            name: name.clone(),
            password: password(file)?,
        }),
        _ => None,
    };
    let wait = Duration::from_micros(args.wait.micros());
    let found = if args.addresses.is_empty() {
        discover::search(args.interface, wait, login.as_ref())?
    } else {
        discover::ask(&args.addresses, wait, login.as_ref())
    };
    print(args, &found)?;
    let answered = found.devices.iter().filter(|device| device.answered);
    let has_streams = found.devices.iter().any(|device| !device.cameras.is_empty());
    if answered.count() == 0 {
        return Err(UserError::new(nothing_answers(args)).into());
    }
    if args.toml && !has_streams {
        return Err(
            UserError::new("no camera has an address for a graph; see the warnings".to_owned()).into(),
        );
    }
    Ok(())
}

fn password(file: &Path) -> Result<String, UserError> {
    let wrong = |reason: &str| UserError::new(format!("--password-file {}: {reason}", file.display()));
    let text = weir_files::read_text(file, MAX_PASSWORD_FILE).map_err(|error| wrong(&error.to_string()))?;
    let password = text.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(wrong("it is empty"));
    }
    Ok(password.to_owned())
}

fn print(args: &Discover, found: &Found) -> anyhow::Result<()> {
    if args.json {
        let json = discover::as_json(found);
        return output::say(&serde_json::to_string_pretty(&json)?);
    }
    for warning in &found.warnings {
        output::remark(&format!("warning: {warning}"));
    }
    for device in &found.devices {
        for warning in &device.warnings {
            output::remark(&format!("warning: {}: {warning}", device.address));
        }
    }
    let text = if args.toml {
        let file = args.password_file.as_ref().map(std::path::absolute).transpose()?;
        discover::graph_tables(found, args.user.as_deref().zip(file.as_deref()))
    } else {
        discover::as_text(found)
    };
    if text.is_empty() {
        return Ok(());
    }
    output::say(&text)
}

fn nothing_answers(args: &Discover) -> String {
    if args.addresses.is_empty() {
        return format!(
            "no camera answered within {}; is ONVIF switched on in the cameras, and are they on a network of this machine? weir \
             discover ADDRESS asks a camera by its address",
            args.wait
        );
    }
    "no address answered by ONVIF; is it switched on in the camera? HOST:PORT asks at another port than 80"
        .to_owned()
}
