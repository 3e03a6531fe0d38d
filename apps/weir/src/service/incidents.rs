//! Incidents as clients list, see and mark them.

use std::fs::File;
use std::str::FromStr;

use serde_json::Value;
use weir_serve::{
    ApiError, DEFAULT_LISTED_INCIDENTS, ErrorCode, IncidentChange, IncidentQuery, MAX_INCIDENT_BINS,
    MAX_LISTED_INCIDENTS, Refusal,
};

use super::Service;
use super::archives::time;
use super::refusals::invalid;
use crate::jobs::now_ms;
use crate::live::{Bins, Filter, Page, PinRefused};
use crate::lock::lock;

impl Service {
    /// Opens the store of incidents, in the folder of the engine's files for this graph.
    pub(super) fn open_incidents(&self) {
        let folder = self.state_path("incidents", "");
        self.live
            .incidents
            .open_store(folder.as_deref().map_err(Clone::clone));
    }

    pub(super) fn list_incidents(&self, query: &IncidentQuery) -> Result<Value, ApiError> {
        self.control()?;
        let filter = Filter {
            stream: query.stream.clone(),
            cameras: query.cameras.clone(),
            class: query.class.clone(),
            zone: query.zone.clone(),
            rule: query.rule.clone(),
            kind: query.kind.clone(),
            from_ms: time("from", query.from.as_deref())?,
            to_ms: time("to", query.to.as_deref())?,
            text: query.text.clone(),
            seen: parsed("seen", query.seen.as_deref(), "true or false")?,
            pinned: parsed("pinned", query.pinned.as_deref(), "true or false")?,
        };
        let page = Page {
            before: parsed("before", query.before.as_deref(), "the `next` of another list")?,
            limit: bounded("limit", query.limit.as_deref(), MAX_LISTED_INCIDENTS)?
                .unwrap_or(DEFAULT_LISTED_INCIDENTS),
            bins: bounded("bins", query.bins.as_deref(), MAX_INCIDENT_BINS)?
                .map(|count| bins(&filter, count))
                .transpose()?,
        };
        Ok(self.live.incidents.list(&filter, &page))
    }

    pub(super) fn shown_incident(&self, id: &str) -> Result<Value, ApiError> {
        self.control()?;
        let mut shown = self.live.incidents.get(id).ok_or_else(|| unknown(""))?;
        if let Some(zone) = shown["stream"].as_str().and_then(|stream| self.time_zone(stream)) {
            shown["time_zone"] = zone.into();
        }
        Ok(shown)
    }

    /// Time zone of a camera by the graph.
    fn time_zone(&self, stream: &str) -> Option<String> {
        let loaded = lock(&self.loaded);
        let graph = &loaded.as_ref()?.graph;
        let source = graph.sources().iter().find(|source| source.name == stream);
        let own = source.and_then(|source| source.timezone.as_ref());
        own.or_else(|| graph.timezone())?.iana_name().map(str::to_owned)
    }

    pub(super) fn mark_incident(&self, id: &str, change: IncidentChange) -> Result<Value, ApiError> {
        self.control()?;
        let marked = self.live.incidents.mark(id, change.seen, change.pinned);
        marked.map_err(|refused| match refused {
            PinRefused::Unknown => unknown(""),
            PinRefused::TooMany(max) => {
                let error = ApiError::new(
                    Refusal::Conflict,
                    format!("{max} incidents are pinned, which are the most"),
                );
                let error = error.code(ErrorCode::PinsFull, [("max", &*max.to_string())]);
                error.hint("take the pin off another one first: GET /api/incidents?pinned=true lists them")
            }
        })?;
        self.forget_state();
        self.shown_incident(id)
    }

    pub(super) fn picture_of_incident(&self, id: &str) -> Result<Vec<u8>, ApiError> {
        let picture = self.live.incidents.picture(id);
        picture.ok_or_else(|| unknown(", or it has no picture"))
    }

    pub(super) fn clip_of_incident(&self, id: &str) -> Result<File, ApiError> {
        match self.live.incidents.clip(id) {
            Ok(clip) => clip.ok_or_else(|| unknown(", or no clip of it yet")),
            Err(error) => {
                tracing::warn!("the clip of {id} cannot be opened: {error}");
                let what = format!("the clip cannot be opened: {}", weir_files::io_reason(&error));
                Err(ApiError::new(Refusal::Failed, what))
            }
        }
    }
}

/// Spans between the times of a filter; without an end, until now.
fn bins(filter: &Filter, count: usize) -> Result<Bins, ApiError> {
    let to_ms = filter.to_ms.unwrap_or_else(now_ms);
    match filter.from_ms {
        Some(from_ms) if from_ms < to_ms => Ok(Bins {
            from_ms,
            to_ms,
            count,
        }),
        _ => Err(invalid("`bins` needs `from`, and `to` must be after it")),
    }
}

fn unknown(or: &str) -> ApiError {
    ApiError::new(
        Refusal::NotFound,
        format!("there is no such incident any more{or}"),
    )
    .code(ErrorCode::IncidentGone, [])
}

fn parsed<T: FromStr>(name: &str, value: Option<&str>, form: &str) -> Result<Option<T>, ApiError> {
    let wrong = |value: &str| invalid(format!("`{name}` is \"{value}\"")).hint(format!("write {form}"));
    value
        .map(|value| value.parse().map_err(|_| wrong(value)))
        .transpose()
}

/// A number from 1 to `max`.
pub(super) fn bounded(name: &str, value: Option<&str>, max: usize) -> Result<Option<usize>, ApiError> {
    let form = format!("a number from 1 to {max}");
    let number = parsed::<usize>(name, value, &form)?;
    match number {
        Some(number) if !(1..=max).contains(&number) => {
            Err(invalid(format!("`{name}` is {number}")).hint(format!("write {form}")))
        }
        number => Ok(number),
    }
}
