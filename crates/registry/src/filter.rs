//! Which events a project leaves out: by name, or by name and conditions. Names of operators and
//! fields are OpenPanel's, so that a project's filters can be taken over as they are.

use serde::{Deserialize, Serialize};

/// Conditions of one filter: each event of the name is held against them one by one.
const CONDITIONS_MAX: usize = 16;
/// Values of one condition.
const VALUES_MAX: usize = 64;
/// Bytes of a name, a field or a value.
const TEXT_BYTES_MAX: usize = 255;
/// Bytes of a pattern once it is compiled.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// What the fields of an event begin with that its producer named.
const PROPERTIES: &str = "properties.";

/// Fields that conditions may be about, besides the producer's own properties.
pub const FIELDS: [&str; 15] = [
    "profile_id",
    "path",
    "origin",
    "referrer",
    "os",
    "os_version",
    "browser",
    "browser_version",
    "device",
    "brand",
    "model",
    "country",
    "region",
    "city",
    "name",
];

/// Events that are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EventFilter {
    /// Those of the name; `*` is every event.
    Name(String),
    /// Those of the name for which all conditions hold.
    When(ConditionalFilter),
}

/// A name with conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConditionalFilter {
    /// The name; `*` is every event.
    pub name: String,
    /// All of them hold.
    pub filters: Vec<Condition>,
}

/// A condition on one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// One of [`FIELDS`], or `properties.` and the dotted path of a property.
    pub name: String,
    /// How it is compared.
    pub operator: Operator,
    /// With what: any of them; none for `isNull` and `isNotNull`.
    #[serde(default)]
    pub value: Vec<String>,
}

/// How a field is compared. A field that is absent is null: it is nothing, contains nothing, and is
/// no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Operator {
    /// Equal to one of the values.
    Is,
    /// Equal to none.
    IsNot,
    /// Contains one.
    Contains,
    /// Contains none.
    DoesNotContain,
    /// Begins with one.
    StartsWith,
    /// Ends with one.
    EndsWith,
    /// A pattern is found in it; without look-around, in linear time.
    Regex,
    /// Absent or empty.
    IsNull,
    /// Neither.
    IsNotNull,
    /// A number above one of the values.
    Gt,
    /// A number below one.
    Lt,
    /// A number not below one.
    Gte,
    /// A number not above one.
    Lte,
}

impl EventFilter {
    /// The name that it is about.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Name(name) => name,
            Self::When(filter) => &filter.name,
        }
    }

    /// Whether it is about events of the name.
    #[must_use]
    pub fn is_about(&self, name: &str) -> bool {
        let own = self.name();
        own == "*" || own == name
    }

    /// Its conditions; none for a name alone.
    #[must_use]
    pub fn conditions(&self) -> &[Condition] {
        match self {
            Self::Name(_) => &[],
            Self::When(filter) => &filter.filters,
        }
    }

    /// The rule that it breaks.
    pub(crate) fn fault(&self) -> Option<String> {
        if !fits(self.name()) {
            return Some(format!("takes names of 1 to {TEXT_BYTES_MAX} bytes"));
        }
        if self.conditions().len() > CONDITIONS_MAX {
            return Some(format!("takes at most {CONDITIONS_MAX} conditions a name"));
        }
        self.conditions().iter().find_map(Condition::fault)
    }
}

fn fits(text: &str) -> bool {
    (1..=TEXT_BYTES_MAX).contains(&text.len())
}

impl Condition {
    /// The producer's property that it is about.
    #[must_use]
    pub fn property(&self) -> Option<&str> {
        self.name.strip_prefix(PROPERTIES)
    }

    fn fault(&self) -> Option<String> {
        let name = &self.name;
        let known = FIELDS.contains(&&**name) || self.property().is_some_and(fits);
        if !known || !fits(name) {
            let fields = FIELDS.join(", ");
            return Some(format!(
                "knows no field `{name}`; fields are properties.PATH, {fields}"
            ));
        }
        let needs_none = matches!(self.operator, Operator::IsNull | Operator::IsNotNull);
        if self.value.is_empty() != needs_none {
            let some = if needs_none { "no value" } else { "a value" };
            return Some(format!("takes {some} for the operator of `{name}`"));
        }
        if self.value.len() > VALUES_MAX || !self.value.iter().all(|value| fits(value)) {
            let rule = format!("{VALUES_MAX} values of 1 to {TEXT_BYTES_MAX} bytes");
            return Some(format!("takes at most {rule} for `{name}`"));
        }
        self.value.iter().find_map(|value| self.value_fault(value))
    }

    fn value_fault(&self, value: &str) -> Option<String> {
        use Operator::{Gt, Gte, Lt, Lte, Regex};
        match self.operator {
            Gt | Lt | Gte | Lte if value.parse::<f64>().is_err() => Some(format!(
                "compares `{}` with a number, and `{value}` is none",
                self.name
            )),
            Regex => pattern(value)
                .err()
                .map(|error| format!("has a pattern for `{}` that is none: {error}", self.name)),
            _ => None,
        }
    }

    /// Whether it holds for a value, or for none. `found` says whether a pattern is in a text.
    pub fn holds(&self, value: Option<&str>, found: impl Fn(&str, &str) -> bool) -> bool {
        use Operator::{
            Contains, DoesNotContain, EndsWith, Gt, Gte, Is, IsNot, IsNotNull, IsNull, Lt, Lte,
            Regex, StartsWith,
        };
        let text = value.unwrap_or("");
        let any = |holds: &dyn Fn(&str) -> bool| {
            value.is_some() && self.value.iter().any(|wanted| holds(wanted))
        };
        let number = |holds: fn(&f64, &f64) -> bool| {
            any(&|wanted| {
                let (own, wanted) = (text.parse::<f64>(), wanted.parse::<f64>());
                matches!((own, wanted), (Ok(own), Ok(wanted)) if holds(&own, &wanted))
            })
        };
        match self.operator {
            Is => any(&|wanted| text == wanted),
            IsNot => !any(&|wanted| text == wanted),
            Contains => any(&|wanted| text.contains(wanted)),
            DoesNotContain => !any(&|wanted| text.contains(wanted)),
            StartsWith => any(&|wanted| text.starts_with(wanted)),
            EndsWith => any(&|wanted| text.ends_with(wanted)),
            Regex => any(&|wanted| found(wanted, text)),
            IsNull => text.is_empty(),
            IsNotNull => !text.is_empty(),
            Gt => number(f64::gt),
            Lt => number(f64::lt),
            Gte => number(f64::ge),
            Lte => number(f64::le),
        }
    }
}

/// Compiles a pattern within its bound.
///
/// # Errors
/// When it is none, or too large.
pub fn pattern(text: &str) -> Result<regex::Regex, regex::Error> {
    regex::RegexBuilder::new(text)
        .size_limit(PATTERN_BYTES_MAX)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(operator: &str, value: &[&str]) -> Condition {
        serde_json::from_value(serde_json::json!({
            "name": "properties.plan", "operator": operator, "value": value,
        }))
        .unwrap()
    }

    #[test]
    fn each_operator_means_what_its_name_says() {
        // (operator, values, the property's value or none, whether it holds)
        let cases: &[(&str, &[&str], Option<&str>, bool)] = &[
            ("is", &["pro", "team"], Some("team"), true),
            ("is", &["pro"], Some("proper"), false),
            ("is", &["pro"], None, false),
            ("isNot", &["pro"], Some("free"), true),
            ("isNot", &["pro"], None, true),
            ("isNot", &["pro"], Some("pro"), false),
            ("contains", &["ro"], Some("pro"), true),
            ("contains", &["ro"], None, false),
            ("doesNotContain", &["ro"], Some("pro"), false),
            ("doesNotContain", &["ro"], None, true),
            ("startsWith", &["p"], Some("pro"), true),
            ("startsWith", &["r"], Some("pro"), false),
            ("endsWith", &["o"], Some("pro"), true),
            ("regex", &["^p.o$"], Some("pro"), true),
            ("regex", &["^o"], Some("pro"), false),
            ("isNull", &[], None, true),
            ("isNull", &[], Some(""), true),
            ("isNull", &[], Some("0"), false),
            ("isNotNull", &[], Some("0"), true),
            ("gt", &["9"], Some("10"), true),
            ("gt", &["10"], Some("10"), false),
            ("gte", &["10"], Some("10.0"), true),
            ("lt", &["10"], Some("9"), true),
            ("lte", &["9.5"], Some("9.5"), true),
            ("lt", &["10"], Some("pro"), false),
            ("lt", &["10"], None, false),
        ];
        for (operator, values, value, holds) in cases {
            let condition = condition(operator, values);
            assert_eq!(condition.fault(), None, "{operator}");
            let found = |wanted: &str, text: &str| pattern(wanted).unwrap().is_match(text);
            let told = format!("{operator} {values:?} {value:?}");
            assert_eq!(condition.holds(*value, found), *holds, "{told}");
        }
    }

    #[test]
    fn what_no_filter_is_names_its_rule() {
        let faulty = [
            (condition("is", &[]), "takes a value"),
            (condition("isNull", &["x"]), "takes no value"),
            (condition("gt", &["ten"]), "`ten` is none"),
            (condition("regex", &["("]), "has a pattern"),
            (condition("regex", &["(?=a)"]), "has a pattern"),
            (condition("regex", &[r"(\w{100}){100}"]), "has a pattern"),
        ];
        for (condition, rule) in faulty {
            let fault = condition.fault().unwrap();
            assert!(fault.contains(rule), "{fault}");
        }
        let unknown = Condition {
            name: "duration".to_owned(),
            ..condition("is", &["1"])
        };
        assert!(
            unknown
                .fault()
                .unwrap()
                .contains("knows no field `duration`")
        );
    }

    #[test]
    fn a_name_alone_is_written_as_it_always_was() {
        let name: EventFilter = serde_json::from_str("\"debug\"").unwrap();
        assert_eq!(name, EventFilter::Name("debug".to_owned()));
        assert_eq!(serde_json::to_string(&name).unwrap(), "\"debug\"");
        assert!(name.is_about("debug") && !name.is_about("debugger"));
    }
}
