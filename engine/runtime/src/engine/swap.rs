//! Another graph takes the place of the one in force, while streams and sinks go on. Its models are ready and its sinks open
//! before anything changes; then the frames of all streams enter it from one to the next. What is in flight of the graph before
//! is finished by its own actors, which end when nothing of it is left.

use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use weir_graph::Graph;
use weir_policy::StreamShare;
use weir_types::ModuleId;

use super::draining::DrainingGraph;
use super::live_streams::{LiveStream, LiveStreams};
use super::packet_observers::SinkObserver;
use super::{RunContext, RunGraph, StartedRun, StreamContext};
use crate::actors::{AddStats, SwapGraph, TakePlan, TakeStats};
use crate::analytics::analytics_plan;
use crate::command::StreamError;
use crate::fleet::{ActivePlan, PreparedPlan};
use crate::policy_specs::PolicySpecs;
use crate::prepare::PreparedGraph;
use crate::routes::{Entrance, Route, SinkView};
use crate::sink::SinkHandle;
use crate::source::SourceTarget;
use crate::stream_setup::InFlightLimits;

impl RunContext<'_> {
    /// Puts another graph into force.
    pub(super) async fn swap(
        &self,
        prepared: PreparedGraph,
        started: &mut StartedRun,
        live: &mut LiveStreams,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> Result<(), StreamError> {
        if self.stop.is_raised() {
            return Err(StreamError::Stopping);
        }
        let before = self.in_force();
        let PreparedGraph {
            graph,
            specs,
            limits,
            workers,
            operators,
            sinks,
            sink_settings,
            plan,
        } = prepared;
        if let Some(plan) = &plan {
            let in_force = self.plan_in_force(started).await?;
            if in_force.is_none_or(|in_force| in_force.number != plan.active.number) {
                return Err(StreamError::PlanChanged);
            }
        }
        let next = self.graph_after(&before, graph, specs, limits, plan.as_ref());
        let running = Rc::new(next);
        let graph = &running.graph;
        let routes = live
            .named()
            .map(|(name, stream)| Arc::new(route_into(&running, name, stream)));
        let routes: Vec<Arc<Route>> = routes.collect();
        let egress = started.streams.actors.egress.clone();
        threads.retain(|thread| !thread.is_finished());
        let parts = (workers, operators);
        let plan_before = self.change_plan(plan);
        let actors = self.start_graph(&running, parts, &egress, threads);
        let actors = actors.map_err(|_| {
            self.change_plan(plan_before);
            StreamError::Machine
        })?;

        let named = graph.sinks().iter().enumerate();
        let views = named.map(|(index, node)| (node.name.clone(), SinkView::new(graph, index)));
        let views: Vec<(String, SinkView)> = views.collect();
        let observers = observers(&views, &sinks, &started.streams);
        let sinks = views.iter().cloned().zip(sinks).enumerate();
        let sinks = sinks.map(|(index, ((name, mut view), opened))| {
            let shown = live
                .named()
                .zip(&routes)
                .filter(|((name, _), route)| route.reaches((index, &view), name));
            view.streams = shown.map(|((_, stream), _)| stream.id.0).collect();
            (name, view, opened)
        });
        egress.do_send(SwapGraph {
            number: running.number,
            graph: actors.graph.clone().recipient(),
            module_names: self.module_names.borrow().clone(),
            sinks: sinks.collect(),
            sink_settings,
            analytics: analytics_plan(graph),
        });

        (started.streams.views, started.streams.observers) = (views, observers);
        let actors_before = std::mem::replace(&mut started.streams.actors, actors);
        let routes_before = self.move_streams(graph, routes, live, &started.streams);
        self.policy.replace(graph.policy().clone());
        self.in_force.replace(Rc::clone(&running));
        started.draining.push(DrainingGraph {
            number: before.number,
            actors: actors_before,
            routes: routes_before,
            is_stopping: false,
        });
        Ok(())
    }

    /// The graph that takes the place of `before`, with the specification of its machines.
    fn graph_after(
        &self,
        before: &RunGraph,
        graph: Arc<Graph>,
        mut specs: PolicySpecs,
        limits: InFlightLimits,
        plan: Option<&PreparedPlan>,
    ) -> RunGraph {
        // Shares of streams come as events: by their numbers, which are not those of the sources of this graph.
        for spec in &mut specs.modules {
            spec.shares = Vec::new();
        }
        let number = before.number + 1;
        let mut control = specs.control(&graph);
        control.plan = plan.map(|plan| plan.active.spec(graph.policy()));
        let recorder = before.recorder.as_ref();
        let recorder = recorder.map(|recorder| recorder.record_graph(number, &control));
        RunGraph {
            number,
            report_ids: self.report_ids(&graph),
            graph,
            specs,
            control,
            limits,
            recorder,
        }
    }

    /// Has the frames of all streams enter another graph by `routes`; gives the routes before.
    fn move_streams(
        &self,
        graph: &Graph,
        routes: Vec<Arc<Route>>,
        live: &mut LiveStreams,
        context: &StreamContext,
    ) -> Vec<Weak<Route>> {
        let mut routes_before = Vec::new();
        for ((name, stream), route) in live.iter_mut().zip(routes) {
            stream.admission.set_slo(stream.slo.unwrap_or(graph.slo()));
            if stream.share != StreamShare::default() {
                self.publish_share(stream.id, stream.share, context);
            }
            stream.target.set(SourceTarget::new(&route, &context.actors));
            let sinks = (&*context.views, &*context.observers);
            stream.observations.set(&stream.tap, (&route, name), sinks);
            let before = std::mem::replace(&mut stream.route, route);
            routes_before.push(Arc::downgrade(&before));
        }
        routes_before
    }

    /// The plan in force; `None` where there is none, or another one is being loaded.
    pub(super) async fn plan_in_force(
        &self,
        started: &StartedRun,
    ) -> Result<Option<ActivePlan>, StreamError> {
        let plan = started.streams.actors.graph.send(TakePlan).await;
        plan.map_err(|_| StreamError::Stopping)
    }

    /// Has another graph use the partition workers; gives what the graph before uses.
    fn change_plan(&self, plan: Option<PreparedPlan>) -> Option<PreparedPlan> {
        let mut partitions = self.partitions.borrow_mut();
        Some(partitions.as_mut()?.change_graph(plan?))
    }

    /// Numbers in reports of the modules of a graph: those of modules of the same name, or the next ones.
    pub(crate) fn report_ids(&self, graph: &Graph) -> Vec<ModuleId> {
        let mut names = self.module_names.borrow_mut();
        let mut id_of = |name: &str| {
            let known = names.iter().position(|known| **known == *name);
            ModuleId(known.unwrap_or_else(|| {
                names.push(name.into());
                names.len() - 1
            }) as u32)
        };
        graph.modules().iter().map(|module| id_of(&module.name)).collect()
    }

    /// At the end of a run, adds the counts of modules whose graphs are not down yet.
    pub(super) async fn add_stats_of_draining(&self, started: &StartedRun) {
        for draining in &started.draining {
            if let Ok(stats) = draining.actors.graph.send(TakeStats).await {
                started.streams.actors.egress.do_send(AddStats(stats));
            }
        }
    }
}

/// Route of a stream through another graph: from the source of its name or of the one whose inputs it shares, from the modules
/// and sinks that were named for it, or else from wherever any source enters.
fn route_into(running: &RunGraph, name: &str, stream: &LiveStream) -> Route {
    let graph = &running.graph;
    let source = graph.source_index(name);
    let like = || stream.like.as_deref().and_then(|like| graph.source_index(like));
    let source = source.or_else(like);
    let entrance = match (source, &stream.entered) {
        (Some(source), _) => Entrance::of_source(graph, source),
        (None, Some(names)) => Entrance::into_named(graph, names),
        (None, None) => Entrance::of_any_source(graph),
    };
    let scene = Arc::clone(&stream.route.scene);
    Route::new((running.number, graph), &entrance, &running.specs.topology, scene)
}

/// Packet observers of the sinks of a graph: those of sinks that were opened, and for sinks that go on those that they had.
fn observers(
    views: &[(String, SinkView)],
    opened: &[Option<SinkHandle>],
    before: &StreamContext,
) -> Vec<SinkObserver> {
    let observer_before = |name: &str| {
        let mut known = before.views.iter().zip(&before.observers);
        let known = known.find(|((known, _), _)| known == name);
        known.and_then(|(_, observer)| observer.clone())
    };
    let observers = views.iter().zip(opened).map(|((name, _), opened)| match opened {
        Some(handle) => handle.packet_observer(),
        None => observer_before(name),
    });
    observers.collect()
}
