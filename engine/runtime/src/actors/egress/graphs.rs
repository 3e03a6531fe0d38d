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
                self.sinks.add(SinkRoute { name, handle, views });
            } else if let Some(sink) = self.sinks.last_named(&name) {
                sink.views.insert(number, view);
            }
        }
        for (name, settings) in sink_settings {
            if let Some(sink) = self.sinks.last_named(&name) {
                sink.handle.send_settings(settings);
            }
        }
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
        self.sinks.drop_graph(number, self.clock.now());
    }
}

impl Handler<AddStats> for Egress {
    type Result = ();

    fn handle(&mut self, AddStats(stats): AddStats, _context: &mut Self::Context) {
        self.counts_of_graphs.add(stats);
    }
}
