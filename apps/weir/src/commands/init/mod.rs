//! `weir init`: a graph with remarks for a clip or a camera, after a look at it. It asks nothing, and needs no network but to
//! the camera.

mod look;
mod text;

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use weir_flow::{SourceLogin, has_login, takes_login};

use crate::args::Init;
use crate::error::{UserError, write_error};
use crate::zoo::Zoo;
use crate::{catalog, output};
use text::{Setup, graph};

/// Writes the graph, and says what was seen and what comes next.
///
/// # Errors
/// A [`UserError`] where the source cannot be opened in time, or the file is there already or cannot be written.
pub(crate) fn init(args: &Init, zoo: &Zoo) -> anyhow::Result<()> {
    let is_file = args.out.as_os_str() != "-";
    if is_file && args.out.symlink_metadata().is_ok() {
        return Err(already_there(&args.out).into());
    }
    if let Some(model) = args.model.as_deref().filter(|model| !model.is_file()) {
        return Err(UserError::new(format!("--model: there is no file {}", model.display())).into());
    }
    let resolved = args.source.as_deref().map(|uri| resolve(uri, zoo)).transpose()?;
    let login = args.user.as_ref().map(|user| SourceLogin {
        user: user.clone(),
        password_file: args.password_file.clone(),
    });
    let address = resolved.as_deref();
    if login.is_some() && address.is_some_and(|uri| !takes_login(uri) || has_login(uri)) {
        let reason = "--user is for rtsp:// and http:// addresses that contain no user themselves";
        return Err(UserError::new(reason.to_owned()).into());
    }
    let seen = address
        .map(|uri| look::look(uri, login.clone(), args.timeout))
        .transpose()?;
    let setup = Setup {
        uri: args.source.as_deref(),
        login: login.as_ref(),
        seen: seen.as_ref(),
        model: args.model.as_deref(),
        out: &args.out,
        data: args.data.as_deref(),
        has_public_model: zoo.resolve(text::PUBLIC_MODEL).is_ok(),
    };
    let text = graph(&setup)?;
    if !is_file {
        return output::say(text.trim_end());
    }
    let is_secret = args.source.as_deref().is_some_and(text::is_secret);
    write_new(&args.out, &text, is_secret)?;
    let file = args.out.display();
    output::say(&format!("{file}: {}", text::seen(&setup)))?;
    if is_secret {
        output::remark(&format!(
            "{file} contains the address with its password; only you can read it, and no service under another account; \
             --user and --password-file keep the password in a file of its own"
        ));
    }
    output::remark(&format!("next: weir check {file}"));
    Ok(())
}

/// The address with its variables, read as in a graph.
fn resolve(uri: &str, zoo: &Zoo) -> anyhow::Result<String> {
    if !text::has_variables(uri) {
        return Ok(uri.to_owned());
    }
    let uri = toml::Value::String(uri.to_owned());
    let graph = format!(
        "[app]\nslo = \"1s\"\n[sources.camera]\nuri = {uri}\n[models.any]\ndevice = \"emulated:any\"\nprofile = {{ \"1\" = \
         \"1ms\" }}\n[modules.any-module]\noperator = \"emulate\"\nmodel = \"any\"\ninputs = [\"camera\"]\n[sinks.none]\ntype = \
         \"null\"\ninputs = [\"any-module\"]\n"
    );
    let variable = |name: &str| std::env::var(name).ok();
    let graph = weir_graph::parse(&graph, Path::new("SOURCE"), &catalog::catalog(zoo), &variable)?;
    let source = graph.sources().first();
    Ok(source.map_or_else(String::new, |source| source.uri.clone()))
}

/// Writes a file that must not be there; one with a password is its owner's alone.
pub(super) fn write_new(path: &Path, text: &str, is_secret: bool) -> Result<(), UserError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if is_secret {
        options.mode(0o600);
    }
    let written = options
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => already_there(path),
        std::io::ErrorKind::NotFound => folder_missing(path),
        _ => write_error(path.display(), &error),
    })
}

fn folder_missing(path: &Path) -> UserError {
    let folder = path.parent().unwrap_or(path).display();
    UserError::new(format!(
        "{} cannot be written, since there is no folder {folder}: create it, or name a file in another one with --out",
        path.display()
    ))
}

fn already_there(path: &Path) -> UserError {
    UserError::new(format!(
        "{} exists and was not changed: name another file with --out",
        path.display()
    ))
}
