//! Rows that a view does not show: conditions on what files hold.

use crate::database::{identifier, text_literal};
use crate::request::{Hidden, HiddenRows, ToldBy};

/// Conditions that leave the rows out, on a table that is called `shown`.
pub fn conditions(hidden: &Hidden, project_column: &str) -> Vec<String> {
    let (project, order) = (
        column("shown", project_column),
        column("shown", &hidden.order),
    );
    let mut conditions = Vec::new();
    let of_projects = hidden.rows.iter().filter(|rows| rows.whose.is_none());
    if let Some(values) = values(of_projects) {
        conditions.push(format!(
            "NOT EXISTS (SELECT 1 FROM {values} AS h(project, whose, before) \
             WHERE h.project = {project} AND {order} < h.before)"
        ));
    }
    let Some(whose) = &hidden.whose_column else {
        return conditions;
    };
    let whose = column("shown", whose);
    let of_one = values(hidden.rows.iter().filter(|rows| rows.whose.is_some()));
    let named = of_one.map(|values| format!("{values} AS h(project, whose, before)"));
    let told = hidden.told_by.as_ref().and_then(told);
    for named in named.into_iter().chain(told) {
        conditions.push(format!(
            "NOT EXISTS (SELECT 1 FROM {named} \
             WHERE h.project = {project} AND h.whose = {whose} AND {order} < h.before)"
        ));
    }
    conditions
}

/// What the other table names, with the project and the number of whose it is.
fn told(by: &ToldBy) -> Option<String> {
    let values = values(by.rows.iter()).filter(|_| !by.files.is_empty())?;
    let files: Vec<String> = by.files.iter().map(|path| text_literal(path)).collect();
    let of = |name| column("told", name);
    Some(format!(
        "(SELECT v.project, {id} AS whose, max(v.before) AS before \
         FROM read_parquet([{files}], union_by_name = true) AS told \
         JOIN {values} AS v(project, whose, before) \
         ON {project} = v.project AND {whose} = v.whose AND {order} < v.before \
         GROUP BY ALL) AS h",
        files = files.join(", "),
        id = of(&by.id_column),
        project = of(&by.project_column),
        whose = of(&by.whose_column),
        order = of(&by.order),
    ))
}

fn values<'a>(rows: impl Iterator<Item = &'a HiddenRows>) -> Option<String> {
    let row = |rows: &HiddenRows| {
        let whose = rows.whose.as_deref().unwrap_or("");
        let (project, whose) = (text_literal(&rows.project), text_literal(whose));
        format!("({project}, {whose}, {})", rows.before)
    };
    let rows: Vec<String> = rows.map(row).collect();
    (!rows.is_empty()).then(|| format!("(VALUES {})", rows.join(", ")))
}

fn column(table: &str, name: &str) -> String {
    format!("{table}.{}", identifier(name))
}
