//! Sinks of the egress: the open ones, and those that no graph has any more. The outages of sinks and the descriptions of incidents
//! come from here as notices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_flow::Notice;
use weir_policy::SinkReport;
use weir_types::{StreamId, Timestamp};

use crate::admission::StreamPermit;
use crate::routes::SinkView;
use crate::sink::SinkHandle;

/// A sink, and what it shows.
pub(crate) struct SinkRoute {
    pub(crate) name: String,
    pub(crate) handle: SinkHandle,
    /// By the number of the graph: of one that is being taken down, too, while requests of it are in flight.
    pub(crate) views: BTreeMap<u32, SinkView>,
}

impl SinkRoute {
    fn shows(&self, graph: u32, stream: StreamId) -> bool {
        let view = self.views.get(&graph);
        view.is_some_and(|view| view.streams.contains(&stream.0))
    }
}

/// See the module.
pub(super) struct Sinks {
    open: Vec<SinkRoute>,
    /// Sinks that no graph has any more; closed.
    closed: Vec<(String, SinkHandle)>,
    /// Whether any open sink is to be given notices.
    wants_notices: bool,
    /// Names of sinks whose outage was reported.
    outages: BTreeSet<String>,
}

impl Sinks {
    pub(super) fn new(open: Vec<SinkRoute>) -> Self {
        Self {
            wants_notices: open.iter().any(|sink| sink.handle.wants_notices()),
            open,
            closed: Vec::new(),
            outages: BTreeSet::new(),
        }
    }

    /// Whether any open sink is to be given notices.
    pub(super) fn wants_notices(&self) -> bool {
        self.wants_notices
    }

    /// The open sinks.
    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, SinkRoute> {
        self.open.iter_mut()
    }

    /// The last of the open sinks of that name: those before it are of graphs that are drained.
    pub(super) fn last_named(&mut self, name: &str) -> Option<&mut SinkRoute> {
        self.open.iter_mut().rev().find(|sink| sink.name == name)
    }

    /// Adds an open sink.
    pub(super) fn add(&mut self, sink: SinkRoute) {
        self.wants_notices |= sink.handle.wants_notices();
        self.open.push(sink);
    }

    /// Removes a graph, nothing of which is on its way to sinks, and closes the sinks that only this graph had.
    pub(super) fn drop_graph(&mut self, graph: u32, now: Timestamp) {
        for sink in &mut self.open {
            sink.views.remove(&graph);
        }
        for mut sink in self.open.extract_if(.., |sink| sink.views.is_empty()) {
            sink.handle.close(now);
            self.closed.push((sink.name, sink.handle));
        }
        self.wants_notices = self.open.iter().any(|sink| sink.handle.wants_notices());
    }

    /// Sends a notice to the sinks that want notices and to which the graph shows the stream.
    pub(super) fn send_notice(
        &mut self,
        stream: StreamId,
        graph: u32,
        notice: Notice,
        permit: Option<&Arc<StreamPermit>>,
    ) {
        let notice = Arc::new(notice);
        let wants = |sink: &&mut SinkRoute| sink.handle.wants_notices() && sink.shows(graph, stream);
        for sink in self.open.iter_mut().filter(wants) {
            sink.handle.send_notice(&notice, permit);
        }
    }

    /// Notifies sinks of outages that began or ended since the last look, which is at `time_ms` since 1970.
    pub(super) fn report_outages(&mut self, time_ms: u64) {
        if !self.wants_notices {
            return;
        }
        let mut notices = Vec::new();
        for sink in &self.open {
            let outage = sink.handle.outage();
            let is_news = match &outage {
                Some(_) => self.outages.insert(sink.name.clone()),
                None => self.outages.remove(&sink.name),
            };
            if is_news {
                notices.push(Arc::new(Notice::Sink {
                    sink: sink.name.as_str().into(),
                    outage: outage.map(Into::into),
                    time_ms,
                }));
            }
        }
        for notice in notices {
            for sink in self.open.iter_mut().filter(|sink| sink.handle.wants_notices()) {
                sink.handle.send_notice(&notice, None);
            }
        }
    }

    /// Takes new descriptions of all sinks, as notices.
    pub(super) fn take_descriptions(&self) -> Vec<Arc<Notice>> {
        self.all()
            .flat_map(|(name, handle)| descriptions(name, handle))
            .collect()
    }

    /// As [`send_described`], to the open sinks.
    pub(super) fn send_described(&mut self, streams: &BTreeMap<Arc<str>, u32>, notices: &[Arc<Notice>]) {
        send_described(&mut self.open, streams, notices);
    }

    /// Counts of all sinks by name. Sinks of one name are counted together.
    pub(super) fn reports(&self) -> BTreeMap<String, SinkReport> {
        let mut reports: BTreeMap<String, SinkReport> = BTreeMap::new();
        for (name, sink) in self.all() {
            reports.entry(name.clone()).or_default().merge(sink.report());
        }
        reports
    }

    /// Takes all sinks; those that are closed show nothing.
    pub(super) fn take_all(&mut self) -> Vec<SinkRoute> {
        let mut sinks = std::mem::take(&mut self.open);
        let closed = std::mem::take(&mut self.closed).into_iter();
        sinks.extend(closed.map(|(name, handle)| SinkRoute {
            name,
            handle,
            views: BTreeMap::new(),
        }));
        sinks
    }

    fn all(&self) -> impl Iterator<Item = (&String, &SinkHandle)> {
        let open = self.open.iter().map(|sink| (&sink.name, &sink.handle));
        open.chain(self.closed.iter().map(|(name, sink)| (name, sink)))
    }
}

/// New descriptions of a sink as notices.
pub(crate) fn descriptions(sink: &str, handle: &SinkHandle) -> Vec<Arc<Notice>> {
    let described = handle.take_descriptions().into_iter().map(|description| {
        Arc::new(Notice::Described {
            sink: sink.into(),
            description: Arc::new(description),
        })
    });
    described.collect()
}

/// Sends descriptions to the sinks that show the stream and the transform of their incidents.
pub(crate) fn send_described(
    sinks: &mut [SinkRoute],
    streams: &BTreeMap<Arc<str>, u32>,
    notices: &[Arc<Notice>],
) {
    for notice in notices {
        let Notice::Described { description, .. } = &**notice else {
            continue;
        };
        // The stream may have been removed meanwhile.
        let Some(stream) = streams.get(&description.stream) else {
            continue;
        };
        for sink in sinks.iter_mut().filter(|sink| !sink.handle.describes()) {
            let mut views = sink.views.values();
            let shows = views.any(|view| {
                view.streams.contains(stream) && view.transforms.contains(&description.incident.transform)
            });
            if shows {
                sink.handle.send_notice(notice, None);
            }
        }
    }
}
