//! Graphs of the egress: another one takes the place of the one in force, of which requests are still in flight.

use std::collections::BTreeMap;

use actix::{AsyncContext, Handler};

use super::{Egress, SinkRoute};
use crate::actors::messages::{AddStats, DropGraph, SwapGraph};

impl Handler<SwapGraph> for Egress {
    type Result = ();

    fn handle(&mut self, swap: SwapGraph, context: &mut Self::Context) {
        let SwapGraph {
            number,
            graph,
            module_names,
            sinks,
            sink_settings,
            analytics,
        } = swap;
        let on_done = context.address().recipient();
        self.programs.start(number, &analytics, self.clock, &on_done);
        self.analytics.insert(number, analytics);
        self.graphs.insert(number, graph);
        self.module_names = module_names;
        for (name, view, opened) in sinks {
            if let Some(handle) = opened {
                let views = BTreeMap::from([(number, view)]);
                self.sinks.push(SinkRoute { name, handle, views });
            // The one before it of that name is of graphs that are drained.
            } else if let Some(sink) = self.sinks.iter_mut().rev().find(|sink| sink.name == name) {
                sink.views.insert(number, view);
            }
        }
        for (name, settings) in sink_settings {
            if let Some(sink) = self.sinks.iter().rev().find(|sink| sink.name == name) {
                sink.handle.send_settings(settings);
            }
        }
        self.wants_notices = self.sinks.iter().any(|sink| sink.handle.wants_notices());
    }
}

impl Handler<DropGraph> for Egress {
    type Result = ();

    fn handle(&mut self, DropGraph { number }: DropGraph, _context: &mut Self::Context) {
        self.graphs.remove(&number);
        self.drop_graph_when_passed(number);
    }
}

impl Egress {
    /// Takes a graph down: nothing of it is on its way to sinks.
    pub(super) fn drop_graph(&mut self, number: u32) {
        for sink in &mut self.sinks {
            sink.views.remove(&number);
        }
        let now = self.clock.now();
        for mut sink in self.sinks.extract_if(.., |sink| sink.views.is_empty()) {
            sink.handle.close(now);
            self.closed_sinks.push((sink.name, sink.handle));
        }
        self.wants_notices = self.sinks.iter().any(|sink| sink.handle.wants_notices());
    }
}

impl Handler<AddStats> for Egress {
    type Result = ();

    fn handle(&mut self, AddStats(stats): AddStats, _context: &mut Self::Context) {
        self.counts_of_graphs.add(stats);
    }
}
