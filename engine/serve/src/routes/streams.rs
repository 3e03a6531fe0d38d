//! Routes of streams and their live video.

use crate::limits::MAX_BODY_BYTES;
use crate::rights::{Scope, right};
use crate::role::Role;
use crate::routes::interface::RouteParameter::{InPath, InQuery};
use crate::routes::interface::RouteReply::{Empty, File, Json, Refused, Retry};
use crate::routes::interface::{JSON, MediaSchema, RouteParameter, RouteReply};
use crate::routes::spec::{Operation, RouteSpec, route};
use crate::schema::JsonSchema::{List, Named, Words};

/// Name of a stream in a path.
const STREAM: RouteParameter = InPath("name", "Name of the stream.");

/// Reply to a request for a stream that does not exist.
const NO_STREAM: RouteReply = Refused(404, "There is no such stream.");

/// Routes of streams and their live video.
pub(super) const ROUTES: &[RouteSpec] = &[
    route(
        "GET",
        "/api/streams",
        Operation::ListStreams,
        right(Role::View, Scope::Filtered),
    )
    .named("listStreams", "The streams with their states.")
    .replies(&[Json(200, "The streams.", List(&Named("Stream")))]),
    route(
        "POST",
        "/api/streams",
        Operation::AddStream,
        right(Role::Edit, Scope::Engine),
    )
    .named(
        "addStream",
        "Adds a stream, and keeps it for the next start. If its source cannot be \
         opened, its state has the reason.",
    )
    .body(MAX_BODY_BYTES, "", &[MediaSchema(JSON, Named("NewStream"))])
    .replies(&[
        Json(201, "It is added.", Named("ChangedStream")),
        Refused(400, "The body describes no stream."),
        Refused(
            403,
            "Not allowed, or the source is a file outside of the folder of the graph.",
        ),
        Refused(409, "The name is taken, or there are too many streams."),
    ]),
    route(
        "POST",
        "/api/discover",
        Operation::Discover,
        right(Role::Edit, Scope::Engine),
    )
    .named(
        "discover",
        "Searches the networks of the engine for cameras by WS-Discovery, or asks one \
         device, and asks each for its streams by ONVIF. Needs --allow-any-source. \
         Takes some seconds.",
    )
    .body(MAX_BODY_BYTES, "", &[MediaSchema(JSON, Named("CameraSearch"))])
    .replies(&[
        Json(
            200,
            "Devices that answered; the list may be empty.",
            Named("FoundCameras"),
        ),
        Refused(400, "The body is not a search, or the address is invalid."),
        Refused(
            403,
            "Clients may not search: the service was started without --allow-any-source; \
             or the role of the token does not allow it.",
        ),
        Refused(429, "Another search runs."),
        Refused(
            500,
            "The search cannot be sent: the machine has no network with IPv4.",
        ),
    ]),
    route(
        "PATCH",
        "/api/streams/{name}",
        Operation::ChangeStream,
        right(Role::Edit, Scope::Stream),
    )
    .named(
        "changeStream",
        "Changes the latency objective, the weight or the reserve of a stream. \
         Requests in flight keep their deadlines.",
    )
    .parameters(&[STREAM])
    .body(MAX_BODY_BYTES, "", &[MediaSchema(JSON, Named("StreamPatch"))])
    .replies(&[
        Json(200, "It is changed.", Named("ChangedStream")),
        Refused(400, "The body says nothing that a stream can have."),
        NO_STREAM,
        Refused(409, "It is being removed."),
    ]),
    route(
        "DELETE",
        "/api/streams/{name}",
        Operation::RemoveStream,
        right(Role::Edit, Scope::Stream),
    )
    .named(
        "removeStream",
        "Removes a stream. The answer comes when its frames in flight are delivered or dropped.",
    )
    .parameters(&[STREAM])
    .replies(&[
        Json(200, "The report of the removed stream.", Named("RemovedStream")),
        NO_STREAM,
        Refused(409, "It is being removed already."),
    ]),
    route(
        "POST",
        "/api/streams/{name}/pause",
        Operation::PauseStream,
        right(Role::Operate, Scope::Stream),
    )
    .named("pauseStream", "Pauses a stream: its source is closed.")
    .parameters(&[STREAM])
    .replies(&[
        Json(200, "The stream is paused.", Named("ChangedStream")),
        NO_STREAM,
        Refused(409, "It has ended, or is being removed."),
    ]),
    route(
        "POST",
        "/api/streams/{name}/resume",
        Operation::ResumeStream,
        right(Role::Operate, Scope::Stream),
    )
    .named("resumeStream", "Resumes a stream that is paused.")
    .parameters(&[STREAM])
    .replies(&[
        Json(200, "The stream is resumed.", Named("ChangedStream")),
        NO_STREAM,
        Refused(409, "It has ended, or is being removed."),
    ]),
    route(
        "GET",
        "/api/streams/{name}/drops",
        Operation::StreamDrops,
        right(Role::View, Scope::Stream),
    )
    .named(
        "streamDrops",
        "Frames of a stream that were not delivered, the newest first: where, why, and \
         what they were short of. At most 200 are kept.",
    )
    .parameters(&[STREAM])
    .replies(&[Json(200, "The frames.", List(&Named("DroppedFrame"))), NO_STREAM]),
    route(
        "GET",
        "/api/streams/{name}/live",
        Operation::Watch,
        right(Role::View, Scope::Stream),
    )
    .named(
        "watchStream",
        "Shows a stream as it is now: its video as the camera encoded it, and what was \
         found in it.",
    )
    .parameters(&[
        STREAM,
        InQuery(
            "sound",
            Words(&["1"]),
            "1: its sound, too, if the camera has sound.",
        ),
    ])
    .replies(&[
        Empty(
            101,
            "A WebSocket. Texts are {\"type\": \"video\"|\"frame\"|\"refused\", ...} \
             (docs/reference/page.md), bytes are MP4: a header after each \"video\", then \
             fragments; after \"refused\" they are JPEGs of some frames. Where a token is \
             needed, the first message of the client is {\"token\": \"...\"}.",
        ),
        Refused(400, "The request has no upgrade to a WebSocket."),
    ]),
    route(
        "GET",
        "/api/streams/{name}/picture",
        Operation::StreamPicture,
        right(Role::View, Scope::Stream),
    )
    .named(
        "getStreamPicture",
        "The newest picture of a stream, at most a second old, with what the graph \
         hides in it.",
    )
    .parameters(&[STREAM])
    .replies(&[
        File(200, "A JPEG of at most 1280 pixels.", "image/jpeg"),
        Refused(
            403,
            "The pictures of the stream are private, or as for other requests.",
        ),
        Refused(
            404,
            "There is no such stream, or no picture of it arrives within 3 s, or within 6 s \
             outside its schedule.",
        ),
        Retry(429, "Too many clients wait for pictures."),
    ]),
    route(
        "GET",
        "/api/live",
        Operation::WatchAll,
        right(Role::View, Scope::Filtered),
    )
    .named(
        "watchStreams",
        "Shows streams as they are now over one WebSocket: their video as the cameras \
         encoded it, and what was found in it.",
    )
    .replies(&[
        Empty(
            101,
            "A WebSocket. The client asks by {\"watch\": \"NAME\"}, {\"sound\": \"NAME\"}, \
             {\"pictures\": \"NAME\"} and {\"leave\": \"NAME\"}. A text {\"type\": \"stream\", \
             \"stream\": \"NAME\"} says which stream the messages after it are of, which are \
             those of /api/streams/{name}/live; {\"type\": \"closed\", \"stream\": \"NAME\", \
             \"reason\": \"...\"} ends one. Where a token is needed, the first message of the \
             client is {\"token\": \"...\"}.",
        ),
        Refused(400, "The request has no upgrade to a WebSocket."),
    ]),
];
