//! `POST /import/events`: events of another system, as rows of its table. They become records
//! like any other, so that sessions are derived from them anew.

use std::borrow::Cow;

use fulmar_enrich::{EVENT_AHEAD_MS_MAX, check_name, revenue};
use fulmar_event::{Enrichment, Texts, Timestamp, TrackView, encode_texts};

use super::TrackDoor;
use super::answers::Visited;
use super::batch::{Judged, Sorting, Verdict};
use super::compose::{Composer, Outgoing};
use super::credentials::Shown;
use super::members::{TEXT_BYTES_MAX, id, members, missing, object, string, text};
use super::payload::{ITEM_ID_BYTES_MAX, ids, of_rule};
use super::receive::Received;
use super::refuse::Refusal;
use super::reserved::time_of;
use super::sessions::Visit;
use crate::capacity::Reservation;
use crate::events::envelope::{Item, Shape, split};
use crate::events::{Fault, code};
use crate::http::Answer;

/// One row.
#[derive(Debug, Default)]
struct Row<'a> {
    id: Option<Cow<'a, str>>,
    name: Cow<'a, str>,
    time: Option<Timestamp>,
    device_id: Cow<'a, str>,
    profile_id: Cow<'a, str>,
    session_id: Cow<'a, str>,
    groups: Vec<Cow<'a, str>>,
    path: Cow<'a, str>,
    origin: Cow<'a, str>,
    referrer: Cow<'a, str>,
    referrer_name: Cow<'a, str>,
    referrer_type: Cow<'a, str>,
    revenue: u64,
    sdk_name: Cow<'a, str>,
    sdk_version: Cow<'a, str>,
    properties: &'a str,
    country: Cow<'a, str>,
    region: Cow<'a, str>,
    city: Cow<'a, str>,
    latitude: Option<f64>,
    longitude: Option<f64>,
    os: Cow<'a, str>,
    os_version: Cow<'a, str>,
    browser: Cow<'a, str>,
    browser_version: Cow<'a, str>,
    device: Cow<'a, str>,
    brand: Cow<'a, str>,
    model: Cow<'a, str>,
}

impl TrackDoor {
    pub(super) async fn import(
        &self,
        received: &Received,
        reservation: Reservation,
    ) -> Result<Answer, Refusal> {
        let caller = &received.caller;
        let shown = Shown {
            id: caller.client_id.as_deref(),
            secret: caller.client_secret.as_deref(),
        };
        let admitted = self.gate().admit_import(shown, received.now).await?;
        let items_max = self.config.events_max as usize;
        let items = split(&received.body, Shape::Sniffed, items_max)?;
        let judge = |item: Item<'_>, sorting: &mut Sorting<'_>| self.judge_row(item, sorting);
        self.sort(received, &admitted, items, reservation, judge)
            .await
    }

    fn judge_row(&self, item: Item<'_>, sorting: &mut Sorting<'_>) -> Result<Judged, Refusal> {
        let bytes_max = self.config.event_bytes_max;
        let now_ms = sorting.composer.now.as_millis();
        let row = item.and_then(|item| match item.len() > bytes_max as usize {
            true => {
                let detail = format!("exceeds {bytes_max} bytes");
                Err(Fault::new(code::EVENT_TOO_LARGE, "", detail))
            }
            false => Row::read(item, now_ms),
        });
        let mut row = match row {
            Ok(row) => row,
            Err(fault) => return Ok(Judged::new(None).refused(fault)),
        };
        let sent = row.id.take().map(Cow::into_owned);
        if let Some(repeat) = sorting.repeat_of(sent.as_deref()) {
            return Ok(repeat);
        }
        let time_ms = row.time.unwrap_or_default().as_millis();
        if let Some(fault) = sorting.beyond_days(Some(time_ms), "created_at") {
            return Ok(Judged::new(sent).refused(fault));
        }
        let id = match &sent {
            Some(id) => id.clone(),
            None => self.mint.random_uuid().ok_or(Refusal::NotDurable)?,
        };
        let composer = sorting.composer;
        Ok(sorting.write(sent.is_some(), id, |id, out| {
            Verdict::Accepted(composer.imported(&row, id, time_ms, out))
        }))
    }
}

impl Composer<'_> {
    fn imported(&self, row: &Row<'_>, id: &str, time_ms: i64, out: &mut Outgoing) -> Visited {
        let visit = match (&*row.device_id, &*row.session_id) {
            ("", _) => Visit::default(),
            (device, "") => self.visits.of_device(device, time_ms),
            (device, session) => Visit {
                device: device.to_owned(),
                session: session.to_owned(),
                live: false,
            },
        };
        let groups = encode_texts(row.groups.iter().map(|group| &**group));
        let view = TrackView {
            name: &row.name,
            properties: row.properties.as_bytes(),
            profile_id: &row.profile_id,
            groups: Texts::new(&groups),
            device_id: &visit.device,
            session_id: &visit.session,
            path: &row.path,
            origin: &row.origin,
            referrer: &row.referrer,
            referrer_name: &row.referrer_name,
            referrer_type: &row.referrer_type,
            revenue: row.revenue,
            sdk_name: &row.sdk_name,
            sdk_version: &row.sdk_version,
            is_server: row.device == "server",
            is_imported: true,
            ..TrackView::default()
        };
        let (key, topic) = match (&*row.device_id, &*row.profile_id) {
            ("", "") => (id, &mut out.events),
            ("", profile) => (profile, &mut out.profiles),
            (device, _) => (device, &mut out.events),
        };
        let head = self.head(id, time_ms, key, row.enrichment());
        head.append_to(&view, self.partition(key), topic);
        visit.into()
    }
}

impl<'a> Row<'a> {
    fn read(item: &'a str, now_ms: i64) -> Result<Self, Fault> {
        let mut row = Self::default();
        members(item, "", |name, value| row.member(name, value))?;
        check_name(&row.name)
            .map_err(|fault| Fault::new(fault.code(), "name", fault.to_string()))?;
        let time = row.time.ok_or_else(|| missing("created_at"))?;
        if time.as_millis() > now_ms + EVENT_AHEAD_MS_MAX {
            let detail = "lies ahead of the server's time";
            return Err(Fault::new(code::TIME_OUT_OF_RANGE, "created_at", detail));
        }
        Ok(row)
    }

    fn member(&mut self, name: &str, value: &'a str) -> Result<(), Fault> {
        let place = match name {
            "id" => {
                let sent = text(value, name, ITEM_ID_BYTES_MAX)?;
                self.id = Some(sent).filter(|sent| !sent.is_empty());
                return Ok(());
            }
            "created_at" => {
                self.time = Some(row_time(value)?);
                return Ok(());
            }
            "profile_id" if value != "\"\"" => {
                self.profile_id = id(value, name)?;
                return Ok(());
            }
            "groups" => {
                self.groups = ids(value, name)?;
                return Ok(());
            }
            "revenue" => {
                self.revenue = revenue(value).map_err(of_rule)?;
                return Ok(());
            }
            "properties" => {
                self.properties = object(value, name)?;
                return Ok(());
            }
            "latitude" => {
                self.latitude = value.parse().ok();
                return Ok(());
            }
            "longitude" => {
                self.longitude = value.parse().ok();
                return Ok(());
            }
            "name" => &mut self.name,
            "device_id" => &mut self.device_id,
            "session_id" => &mut self.session_id,
            "path" => &mut self.path,
            "origin" => &mut self.origin,
            "referrer" => &mut self.referrer,
            "referrer_name" => &mut self.referrer_name,
            "referrer_type" => &mut self.referrer_type,
            "sdk_name" => &mut self.sdk_name,
            "sdk_version" => &mut self.sdk_version,
            "country" => &mut self.country,
            "region" => &mut self.region,
            "city" => &mut self.city,
            "os" => &mut self.os,
            "os_version" => &mut self.os_version,
            "browser" => &mut self.browser,
            "browser_version" => &mut self.browser_version,
            "device" => &mut self.device,
            "brand" => &mut self.brand,
            "model" => &mut self.model,
            // `project_id`, `imported_at` and the like are the server's.
            _ => return Ok(()),
        };
        *place = text(value, name, TEXT_BYTES_MAX)?;
        Ok(())
    }

    fn enrichment(&self) -> Enrichment<'_> {
        let micros =
            |degrees: f64, max: f64| (degrees.abs() <= max).then(|| (degrees * 1e6).round() as i32);
        let place = self.latitude.zip(self.longitude);
        Enrichment {
            country: &self.country,
            region: &self.region,
            city: &self.city,
            place_micros: place.and_then(|(latitude, longitude)| {
                micros(latitude, 90.0).zip(micros(longitude, 180.0))
            }),
            os: &self.os,
            os_version: &self.os_version,
            browser: &self.browser,
            browser_version: &self.browser_version,
            device: &self.device,
            brand: &self.brand,
            model: &self.model,
            bot_reasons: "",
        }
    }
}

/// `2026-11-30 10:00:00.000`, which is UTC, or RFC 3339.
fn row_time(value: &str) -> Result<Timestamp, Fault> {
    let field = "created_at";
    let text = string(value, field)?.unwrap_or_default();
    let time = time_of(&text).or_else(|| time_of(&(text.trim().replacen(' ', "T", 1) + "Z")));
    time.ok_or_else(|| Fault::of_field(field, "must be a time such as 2026-11-30 10:00:00.000"))
}
