//! The nearest known name of a misspelt one.

/// The name nearest to `wrong`, if it is near enough to be meant: few letters differ, or it is
/// the same word in another section.
pub fn nearest<'a>(
    wrong: &str,
    names: impl IntoIterator<Item = &'a str> + Clone,
) -> Option<&'a str> {
    let wrong = wrong.to_ascii_lowercase();
    near_letters(&wrong, names.clone()).or_else(|| {
        let word = wrong
            .strip_prefix("fulmar")
            .or_else(|| wrong.rfind('.').map(|at| &wrong[at..]));
        let word = word?;
        names
            .into_iter()
            .find(|name| name.to_ascii_lowercase().ends_with(word))
    })
}

fn near_letters<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters may differ; beyond it a hint misleads more than it helps.
    let allowed = wrong.len() / 3 + 1;
    let (name, edits) = names
        .into_iter()
        .map(|name| {
            (
                name,
                distance(wrong.as_bytes(), name.to_ascii_lowercase().as_bytes()),
            )
        })
        .min_by_key(|(_, edits)| *edits)?;
    (edits <= allowed).then_some(name)
}

/// Insertions, deletions, replacements and swaps of neighbours from `a` to `b`.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let width = b.len() + 1;
    let mut rows = vec![0_usize; (a.len() + 1) * width];
    for (j, cell) in rows.iter_mut().take(width).enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        rows[i * width] = i;
        for j in 1..=b.len() {
            let above = rows[(i - 1) * width + j] + 1;
            let left = rows[i * width + j - 1] + 1;
            let replaced = rows[(i - 1) * width + j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = above.min(left).min(replaced);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[(i - 2) * width + j - 2] + 1);
            }
            rows[i * width + j] = best;
        }
    }
    rows[a.len() * width + b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_worked_by_hand() {
        assert_eq!(distance(b"", b"abc"), 3);
        assert_eq!(distance(b"kitten", b"sitting"), 3);
        assert_eq!(distance(b"adress", b"address"), 1);
        assert_eq!(
            distance(b"memroy", b"memory"),
            1,
            "a swap of neighbours is one edit"
        );
    }

    #[test]
    fn only_a_near_name_is_offered() {
        let names = ["public.address", "agents.address", "log.partitions"];
        assert_eq!(nearest("public.adress", names), Some("public.address"));
        assert_eq!(nearest("log.partition", names), Some("log.partitions"));
        assert_eq!(nearest("enforce_fsync", names), None);
        assert_eq!(nearest("topics.partitions", names), Some("log.partitions"));
        assert_eq!(
            nearest("FULMAR_X", ["FULMAR_OTHER_X"]),
            Some("FULMAR_OTHER_X")
        );
        assert_eq!(nearest("x", []), None);
    }
}
