//! What claims and figures of somebody else may keep, and evidence that is not there.

use super::claims::{Lab, claim, usual};
use crate::claims::{
    Answers, Better, Claim, ClaimKind, Expected, Figure, FigureKind, FigureQuery, FindingQuery, answer_all,
    figures,
};
use crate::{ClaimResult, Verdict};

fn query(id: &str, kind: FigureKind, sql: &str) -> FigureQuery {
    FigureQuery {
        id: id.to_owned(),
        title: "Made up".to_owned(),
        kind,
        x: "x".to_owned(),
        y: "y".to_owned(),
        alike: None,
        better: Better::More,
        sql: sql.to_owned(),
    }
}

fn drawn(queries: Vec<FigureQuery>) -> Vec<Figure> {
    let mut lab = Lab::new(usual());
    lab.study.study.figures = queries;
    figures(&lab.store, &lab.study).unwrap()
}

fn problem(kind: FigureKind, sql: &str) -> Option<String> {
    drawn(vec![query("fig-1", kind, sql)]).pop().unwrap().problem
}

fn judged(claim: Claim) -> ClaimResult {
    Lab::new(usual()).judge_one(claim)
}

/// `i` from 1 to `count`.
fn numbers(count: usize) -> String {
    format!("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {count})")
}

#[test]
fn a_name_has_so_many_characters_and_no_more() {
    for column in ["panel", "series", "x"] {
        let sql = |characters: usize| {
            let rest = if column == "x" { "'s' AS series" } else { "'x' AS x" };
            format!("SELECT printf('%.*c', {characters}, 'a') AS {column}, {rest}, 1 AS y")
        };
        assert_eq!(problem(FigureKind::Bars, &sql(300)), None);
        let said = format!(
            "the query of fig-1 is wrong: `{column}` of row 1 has 301 characters, and a name may have 300; shorten it with substr"
        );
        assert_eq!(problem(FigureKind::Bars, &sql(301)), Some(said));
    }
    let part = "SELECT printf('%.*c', 1000000, 'a') AS part, 1 AS baseline, 2 AS candidate";
    let result = judged(claim(ClaimKind::Predicate, Some(Expected::More), part));
    assert_eq!(
        (result.verdict, result.reason.as_str()),
        (
            Verdict::NotTestable,
            "the query of L-0 is wrong: `part` of row 1 has 1000000 characters, and a name may have 300; shorten it with substr"
        )
    );
}

#[test]
fn a_long_value_is_told_by_its_beginning() {
    let sql = "SELECT 'memory' AS what, printf('%.*c', 1000000, 'a') AS found, 'b' AS published";
    let result = judged(claim(ClaimKind::Setup, None, sql));
    assert!(result.reason.ends_with("aaa…, published b") && result.reason.len() < 400, "{}", result.reason);
}

#[test]
fn a_figure_has_so_many_panels_series_and_words_and_no_more() {
    for (column, most) in [("panel", 50), ("series", 100)] {
        let sql =
            |count: usize| format!("{} SELECT 'n' || i AS {column}, i AS x, i AS y FROM n", numbers(count));
        assert_eq!(problem(FigureKind::Line, &sql(most)), None);
        let said = format!(
            "the query of fig-1 is wrong: it returns {} different values of `{column}`, but at most {most} are allowed; split it into several",
            most + 1
        );
        assert_eq!(problem(FigureKind::Line, &sql(most + 1)), Some(said));
    }
    let legends =
        format!("{} SELECT i % 40 AS panel, i % 41 AS series, i AS x, i AS y FROM n", numbers(1_640));
    let said = "the query of fig-1 is wrong: it has 40 panels with a legend of 41 series each, but at most 1000 names are allowed; split it into several";
    assert_eq!(problem(FigureKind::Line, &legends).as_deref(), Some(said));
    let long =
        FigureQuery { title: "t".repeat(1_001), ..query("fig-2", FigureKind::Line, "SELECT 1 AS x, 1 AS y") };
    let figure = drawn(vec![long]).pop().unwrap();
    let said = "fig-2 is not drawn: its `title` has 1001 characters, but at most 1000 are allowed; shorten it in the study";
    assert_eq!((figure.rows.len(), figure.problem.as_deref()), (0, Some(said)));
}

#[test]
fn a_claim_has_so_many_parts_and_no_more() {
    let parts = |count: usize| {
        let sql = format!("{} SELECT 'p' || i AS part, 1 AS baseline, 2 AS candidate FROM n", numbers(count));
        judged(claim(ClaimKind::Predicate, Some(Expected::More), &sql)).reason
    };
    assert!(!parts(1_000).contains("different values"), "{}", parts(1_000));
    assert_eq!(
        parts(1_001),
        "the query of L-0 is wrong: it returns 1001 different values of `part`, but at most 1000 are allowed; split it into several"
    );
}

#[test]
fn all_claims_and_figures_together_keep_so_much_and_no_more() {
    let mut lab = Lab::new(usual());
    let many = format!("{} SELECT printf('%.*c', 300, 'p') AS panel, i AS x, i AS y FROM n", numbers(50_000));
    lab.study.study.figures = (1..=3).map(|n| query(&format!("fig-{n}"), FigureKind::Line, &many)).collect();
    let deviations = format!(
        "{} SELECT 'w' || i AS what, printf('%.*c', 300, 'f') AS found, 'x' AS published FROM n",
        numbers(50_000)
    );
    let small = "SELECT 'w' AS what, 1 AS found, 1 AS published";
    lab.study.study.claims =
        vec![claim(ClaimKind::Setup, None, &deviations), claim(ClaimKind::Setup, None, small)];
    let Answers { claims: results, figures, .. } = answer_all(&lab.store, &lab.study).unwrap();
    let together = "the claims and figures of the study would keep over 32 MiB";
    let [first, second, third] = figures.as_slice() else { panic!("three figures") };
    assert_eq!((first.rows.len(), &first.problem), (50_000, &None));
    for figure in [second, third] {
        let problem = figure.problem.as_deref().unwrap_or_default();
        assert!(problem.starts_with(&format!("{} is not drawn: with its ", figure.query.id)), "{problem}");
        assert!(problem.contains(together) && figure.rows.is_empty(), "{problem}");
    }
    let [large, small] = results.as_slice() else { panic!("two claims") };
    assert!(large.reason.starts_with("L-0 is not judged: with its "), "{}", large.reason);
    assert!(large.reason.contains(together) && large.verdict == Verdict::NotTestable, "{}", large.reason);
    assert_eq!(small.verdict, Verdict::Reproduced);
}

#[test]
fn a_study_has_so_many_claims_and_figures_and_no_more() {
    // A study that comes with a file of results has not been read from a study file here.
    let mut lab = Lab::new(usual());
    let sql = "SELECT 'w' AS what, 1 AS found, 1 AS published, 1 AS x, 1 AS y";
    lab.study.study.figures = vec![query("fig-1", FigureKind::Line, sql); 251];
    lab.study.study.claims = vec![claim(ClaimKind::Setup, None, sql); 501];
    let Answers { claims: results, figures, .. } = answer_all(&lab.store, &lab.study).unwrap();
    assert_eq!(figures.iter().filter(|figure| figure.problem.is_none()).count(), 250);
    let said = "fig-1 is not drawn: a study may have 250 figures; remove some, or split the study in two";
    assert_eq!(figures[250].problem.as_deref(), Some(said));
    assert!(results[..500].iter().all(|result| result.verdict == Verdict::Reproduced));
    let said = "L-0 is not judged: a study may have 500 claims; remove some, or split the study in two";
    assert_eq!(results[500].reason, said);
}

#[test]
fn a_run_that_is_not_there_spoils_its_claim_only() {
    let mut lab = Lab::new(usual());
    let missing = format!(
        "{} SELECT 1 AS baseline, 2 AS candidate, i AS run, i + 1 AS baseline_run FROM n",
        numbers(12)
    );
    let present = "SELECT run, 'w' AS what, 1 AS found, 1 AS published FROM cell";
    let results = lab.judge(vec![
        claim(ClaimKind::Predicate, Some(Expected::Less), &missing),
        claim(
            ClaimKind::Setup,
            None,
            &missing.replace("AS candidate", "AS found, 1 AS published, 'w' AS what"),
        ),
        claim(ClaimKind::Setup, None, present),
    ]);
    for result in &results[..2] {
        assert_eq!(
            (result.verdict, result.reason.as_str()),
            (
                Verdict::NotTestable,
                "L-0 is not judged: its query names run 13, which is not in these results; take `run` and `baseline_run` from `cell`, `twin` or `pair`"
            )
        );
    }
    assert_eq!((results[2].verdict, results[2].runs.len()), (Verdict::Reproduced, 12));
}

#[test]
fn findings_are_told_in_the_sentences_of_their_queries() {
    let told = |sql: &str| {
        let mut lab = Lab::new(usual());
        let query = FindingQuery { id: "one".into(), title: "T".into(), sql: sql.into() };
        lab.study.study.findings = vec![query];
        let finding = answer_all(&lab.store, &lab.study).unwrap().findings.remove(0);
        (finding.sentences, finding.problem.unwrap_or_default())
    };
    let (sentences, problem) =
        told("SELECT printf('%d runs', count(*)) AS sentence FROM cell WHERE kind = 'nested'");
    assert!(
        problem.is_empty() && sentences.len() == 1 && sentences[0] != "0 runs",
        "{sentences:?} {problem}"
    );
    // Without a number there is no sentence.
    let (sentences, problem) = told("SELECT 'It took ' || NULL || ' s' AS sentence");
    assert!(
        sentences.is_empty() && problem == "no counted run has the values that it reports",
        "{sentences:?} {problem}"
    );
    let (_, problem) = told("SELECT 1 AS number");
    assert!(problem.contains("it does not return the column `sentence`"), "{problem}");
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 51) SELECT i AS sentence FROM n";
    let (_, problem) = told(many);
    assert!(problem.contains("51 sentences, but at most 50 are allowed"), "{problem}");
    let (_, problem) = told("SELECT printf('%1001d', 1) AS sentence");
    assert!(problem.contains("has 1001 characters, but at most 1000 are allowed"), "{problem}");
}
