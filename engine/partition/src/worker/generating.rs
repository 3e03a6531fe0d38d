//! Connection over which an engine runs one instance of a generative model: first the model is transferred,
//! then steps run one after the other. The instance ends with its connection; its sequences continue
//! elsewhere from the engine's tokens.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use weir_flow::{GeneratedToken, GenerativeSession, SequenceCommand};
use weir_types::SleepCompensator;

use super::core::Core;
use super::emulation::emulate_duration;
use crate::connection::{MessageReader, MessageWriter};
use crate::wire::{InstanceStep, Message, WireError};

/// Serves until the engine goes or the worker ends.
pub(super) fn serve(
    core: &Core,
    reader: &mut MessageReader,
    writer: &mut MessageWriter,
) -> Result<(), WireError> {
    writer.send(&Message::Welcome(core.welcome(Vec::new())))?;
    let Some(first) = next(core, reader)? else {
        return Ok(());
    };
    let Message::LoadGenerator { model } = first else {
        return Err(WireError::Unexpected(first.name()));
    };
    let opened = core.open_generator(&model);
    drop(model);
    let (limits, mut session) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            let reason = error.to_string();
            tracing::warn!("an instance is not opened: {reason}");
            // This is not a protocol error: the engine passes the reason on to the user.
            return writer.send(&Message::StepFailed { reason });
        }
    };
    writer.send(&Message::GeneratorLoaded {
        vocabulary: limits.vocabulary,
        max_sequence_tokens: limits.max_sequence_tokens,
    })?;
    tracing::info!("an engine generates here");
    let mut compensator = SleepCompensator::default();
    while let Some(message) = next(core, reader)? {
        let Message::Step(step) = message else {
            return Err(WireError::Unexpected(message.name()));
        };
        let state = core.state();
        let began = state.own_now();
        match run(session.as_mut(), step) {
            Ok(tokens) => {
                let took = state.own_now().since(began);
                let extra = core.options().emulation.extra_time(None, 1, took);
                emulate_duration(state, extra, &mut compensator);
                let took = state.own_now().since(began);
                writer.send(&Message::Stepped { took, tokens })?;
            }
            Err(reason) => {
                // What is computed of its sequences is unknown: the engine begins anew.
                writer.send(&Message::StepFailed { reason })?;
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Returns the next message; `None` if the worker stops or the engine has disconnected.
fn next(core: &Core, reader: &mut MessageReader) -> Result<Option<Message>, WireError> {
    while !core.state().stop.is_raised() {
        match reader.poll() {
            Ok(Some(message)) => return Ok(Some(message)),
            Ok(None) => {}
            Err(WireError::Closed) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn run(session: &mut dyn GenerativeSession, step: InstanceStep) -> Result<Vec<GeneratedToken>, String> {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        for command in step.commands {
            // A sequence with fewer computed tokens than the engine counts on would lack one of the step.
            let must_succeed = matches!(command, SequenceCommand::ReusePrefix { .. });
            match command.carry_out(session) {
                Err(error) if must_succeed => return Err(error),
                // The error fails the step that contains the sequence.
                Err(error) => tracing::debug!("{error}"),
                Ok(()) => {}
            }
        }
        session.step(&step.steps)
    }));
    match ran {
        Ok(stepped) => stepped.map_err(|error| error.to_string()),
        Err(_) => Err("the session panicked".to_owned()),
    }
}

/// Result of [`Core::open_generator`].
pub(super) type OpenedGenerator = (weir_flow::GenerativeLimits, Box<dyn GenerativeSession>);

impl Core {
    /// Opens an instance of the model in these bytes.
    fn open_generator(&self, model: &Arc<Vec<u8>>) -> Result<OpenedGenerator, weir_flow::SessionError> {
        let model = self.loader().load_generator(model)?;
        let session = model.open(self.options().device)?;
        Ok((model.limits(), session))
    }
}
