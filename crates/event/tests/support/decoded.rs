//! The view in the words of the mirror, for comparing both.

use fulmar_event::{
    AuthenticationView, Body, BotView, EventView, MessageView, ProfileView, ReplayView, Timestamp,
    TrackView,
};

use crate::support::mirror;

/// A decoded event without the difference between absent and empty submessages, which the view
/// does not keep except for times, `time`, `collection` and the payload.
pub fn normal(mut event: mirror::Event) -> mirror::Event {
    event.origin = Some(event.origin.unwrap_or_default());
    event.origin.as_mut().unwrap().host.get_or_insert_default();
    event.reception.get_or_insert_default();
    event.stamp.get_or_insert_default();
    event.enrichment = None;
    if let Some(mirror::Body::Authentication(body)) = &mut event.body {
        body.user.get_or_insert_default();
        body.service.get_or_insert_default();
        let network = body.network.get_or_insert_default();
        network.source.get_or_insert_default();
        network.destination.get_or_insert_default();
    }
    event
}

fn time(time: Option<Timestamp>) -> Option<mirror::Timestamp> {
    time.map(|time| mirror::Timestamp {
        seconds: time.seconds,
        nanos: time.nanos as i32,
    })
}

pub fn as_decoded(view: &EventView<'_>) -> mirror::Event {
    let text = str::to_owned;
    mirror::Event {
        event_id: text(view.event_id),
        schema_version: view.schema_version,
        event_class: view.event_class,
        time: view.has_time.then(|| mirror::Timestamps {
            event_time: time(view.event_time),
            observed_time: time(view.observed_time),
        }),
        origin: Some(mirror::Origin {
            tenant_id: text(view.tenant_id),
            agent_id: text(view.agent_id),
            host: Some(mirror::Host {
                hostname: text(view.host_hostname),
                ip: text(view.host_ip),
                os: text(view.host_os),
                architecture: text(view.host_architecture),
            }),
        }),
        collection: view.has_collection.then(|| mirror::Collection {
            collector: text(view.collector),
            source: text(view.collection_source),
            sequence: view.sequence,
        }),
        reception: Some(mirror::Reception {
            ingest_time: time(view.ingest_time),
            gateway: text(view.gateway),
            batch_id: text(view.batch_id),
        }),
        body: body_as_decoded(&view.body),
        stamp: Some(mirror::Stamp {
            project: text(view.stamp.project),
            source: text(view.stamp.source),
            door: view.stamp.door,
            control_offset: view.stamp.control_offset,
            key: text(view.stamp.key),
        }),
        enrichment: None,
    }
}

fn body_as_decoded(body: &Body<'_>) -> Option<mirror::Body> {
    Some(match body {
        Body::None => return None,
        Body::Authentication(body) => mirror::Body::Authentication(authentication(body)),
        Body::Track(body) => mirror::Body::Track(track(body)),
        Body::Profile(body) => mirror::Body::Profile(profile(body)),
        Body::Bot(body) => mirror::Body::Bot(bot(body)),
        Body::Replay(body) => mirror::Body::Replay(replay(body)),
        Body::Message(body) => mirror::Body::Message(message(body)),
    })
}

fn authentication(body: &AuthenticationView<'_>) -> mirror::Authentication {
    let text = str::to_owned;
    let endpoint = |ip, port| Some(mirror::Endpoint { ip: text(ip), port });
    mirror::Authentication {
        activity: body.activity,
        outcome: body.outcome,
        outcome_reason: text(body.outcome_reason),
        method: text(body.method),
        user: Some(mirror::User {
            name: text(body.user_name),
            domain: text(body.user_domain),
            uid: text(body.user_uid),
        }),
        service: Some(mirror::Service {
            name: text(body.service_name),
            protocol: text(body.service_protocol),
        }),
        network: Some(mirror::Network {
            source: endpoint(body.source_ip, body.source_port),
            destination: endpoint(body.destination_ip, body.destination_port),
            transport: body.transport,
        }),
        raw_record: text(body.raw_record),
    }
}

fn track(body: &TrackView<'_>) -> mirror::Track {
    let text = str::to_owned;
    mirror::Track {
        name: text(body.name),
        properties: body.properties.to_vec(),
        profile_id: text(body.profile_id),
        groups: body.groups.as_bytes().to_vec(),
        device_id: text(body.device_id),
        session_id: text(body.session_id),
        path: text(body.path),
        origin: text(body.origin),
        query: text(body.query),
        fragment: text(body.fragment),
        referrer: text(body.referrer),
        referrer_name: text(body.referrer_name),
        referrer_type: text(body.referrer_type),
        revenue: body.revenue,
        sdk_name: text(body.sdk_name),
        sdk_version: text(body.sdk_version),
        is_server: body.is_server,
        is_imported: body.is_imported,
    }
}

fn profile(body: &ProfileView<'_>) -> mirror::Profile {
    let text = str::to_owned;
    mirror::Profile {
        profile_id: text(body.profile_id),
        properties: body.properties.to_vec(),
        change: body.change,
        first_name: text(body.first_name),
        last_name: text(body.last_name),
        email: text(body.email),
        avatar: text(body.avatar),
        property: text(body.property),
        amount_micros: body.amount_micros,
        groups: body.groups.as_bytes().to_vec(),
        group_id: text(body.group_id),
        group_type: text(body.group_type),
        group_name: text(body.group_name),
        device_id: text(body.device_id),
        session_id: text(body.session_id),
        alias: text(body.alias),
    }
}

fn bot(body: &BotView<'_>) -> mirror::Bot {
    let text = str::to_owned;
    mirror::Bot {
        name: text(body.name),
        kind: text(body.kind),
        path: text(body.path),
    }
}

fn replay(body: &ReplayView<'_>) -> mirror::Replay {
    let text = str::to_owned;
    mirror::Replay {
        session_id: text(body.session_id),
        device_id: text(body.device_id),
        chunk_index: body.chunk_index,
        events_count: body.events_count,
        is_full_snapshot: body.is_full_snapshot,
        started_at: time(body.started_at),
        ended_at: time(body.ended_at),
        payload: body.payload.to_vec(),
    }
}

fn message(body: &MessageView<'_>) -> mirror::Message {
    let text = str::to_owned;
    mirror::Message {
        kind: text(body.kind),
        source: text(body.source),
        subject: text(body.subject),
        consumer: text(body.consumer),
        data: body.data.to_vec(),
        data_content_type: text(body.data_content_type),
        data_base64: body.data_base64,
        extensions: body.extensions.to_vec(),
        labels: body.labels.to_vec(),
        idempotency_key: text(body.idempotency_key),
        schema: body.schema,
    }
}
