//! For the benchmark of models that generate: the runs of a decoder alone, without sequences, sampling or scheduling. Each
//! run's cache is the past of the next, and its tokens are always the same.

use weir_flow::{DeviceKind, Settings};

use super::cache::{Gathered, Past, Rows};
use super::ports::Ports;
use super::run::{RowTokens, RunInputs, RunPast};
use crate::model::runtime::OrtSession;

/// A decoder that is run by itself.
pub struct BareDecoder {
    session: OrtSession,
    ports: Ports,
    inputs: RunInputs,
    rows: Option<Rows>,
    batch: usize,
}

impl BareDecoder {
    /// Opens the decoder of `bytes` on the CPU.
    ///
    /// # Errors
    /// It is no decoder, or ONNX Runtime is missing.
    pub fn open(bytes: &[u8], settings: &Settings) -> Result<Self, String> {
        let session = OrtSession::open(bytes, DeviceKind::Cpu).map_err(|error| error.to_string())?;
        Ok(Self {
            ports: Ports::find(&session, settings)?,
            session,
            inputs: RunInputs::default(),
            rows: None,
            batch: 0,
        })
    }

    /// Runs prompts of `past` tokens in `batch` rows.
    ///
    /// # Errors
    /// The runtime's error.
    pub fn begin(&mut self, batch: usize, past: usize) -> Result<(), String> {
        let mut nothing = Gathered::default();
        nothing.gather(&vec![Past::Nothing; batch], &self.ports)?;
        let prompt: Vec<u32> = (0..past).map(|place| 3 + (place % 500) as u32).collect();
        let rows = vec![RowTokens::ids(&prompt); batch];
        let past = RunPast::Gathered(&nothing);
        let output = self.inputs.run(&mut self.session, &self.ports, &past, &rows)?;
        (self.rows, self.batch) = (Some(output.rows), batch);
        Ok(())
    }

    /// Runs one more token in every row.
    ///
    /// # Errors
    /// The runtime's error, or nothing was begun.
    pub fn step(&mut self) -> Result<(), String> {
        let rows = self.rows.as_ref().ok_or("begin comes before it")?;
        let tokens = vec![RowTokens::ids(&[5]); self.batch];
        let past = RunPast::Held(rows);
        let output = self.inputs.run(&mut self.session, &self.ports, &past, &tokens)?;
        self.rows = Some(output.rows);
        Ok(())
    }
}
