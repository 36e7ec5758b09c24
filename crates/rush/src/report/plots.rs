//! The plots of a rehearsal: which numbers go into which plot, with a sentence about each.

use std::ops::Range;

use super::{
    RehearsalReport,
    chart::{Plot, PlotLayer, PlotMark},
    page::{self, AMBER, BLUE, Colour, GREEN, GREY, INK, PINK, PURPLE, RED, TEAL},
    timeline::{self, Stretch},
    words::{self, counted, duration, rounded, thousands},
};

/// A histogram with more bars is thinned out.
const MAX_BARS: usize = 60;
/// Up to this many measurements get a dot each.
const MAX_DOTS: usize = 40;

/// A plot with its heading, sentence and legend, as HTML.
pub(super) struct Section {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) sentence: String,
    pub(super) drawing: String,
}

pub(super) fn all(report: &RehearsalReport) -> anyhow::Result<Vec<Section>> {
    let (timeline, slice_ms) = (&report.timeline, report.slice_ms);
    let whole = timeline::whole(timeline, slice_ms);
    let orders = timeline::close_up(timeline, slice_ms, |slice| timeline::answers(slice) + slice.orders_due);
    let sold = timeline::close_up(timeline, slice_ms, |slice| slice.sold);
    let about = |part: &Range<i64>, what: &str| {
        if *part == whole {
            return String::new();
        }
        let seconds = (part.end - part.start) as f64 / 1000.0;
        format!(" The plot shows the {} in which nearly all {what}.", duration(seconds))
    };
    let about_orders = about(&orders, "orders came");
    let course = timeline::stretches(timeline, slice_ms, &orders);
    Ok(vec![
        demand(report, &timeline::stretches(timeline, slice_ms, &whole))?,
        stock(report, &timeline::stretches(timeline, slice_ms, &sold), &about(&sold, "units were sold"))?,
        outcomes(report, &course, &about_orders)?,
        waiting(report, &course, &about_orders)?,
        histogram(report)?,
        reasons(report),
    ])
}

fn demand(report: &RehearsalReport, stretches: &[Stretch]) -> anyhow::Result<Section> {
    let came = so_far(stretches, |stretch| stretch.came);
    let due = so_far(stretches, |stretch| stretch.orders_due);
    let most = highest(&came).max(highest(&due));
    let busiest = report.timeline.iter().map(|slice| slice.orders_due).max().unwrap_or(0);
    let plot = over_time(
        report,
        stretches,
        "People who have come and orders that were due, over time".to_owned(),
        most,
        vec![PlotLayer::Line(GREY, came), PlotLayer::Line(BLUE, due)],
    );
    let legend = [
        (GREY, format!("{} who have come so far", words::crowd(report))),
        (BLUE, "orders they wanted to place so far".to_owned()),
    ];
    Ok(Section {
        id: "demand",
        title: "How the crowd came",
        sentence: format!(
            "The steeper a line, the harder the rush: in the busiest {} there were {}.",
            duration(report.slice_ms as f64 / 1000.0),
            counted(busiest, "order")
        ),
        drawing: page::legend(&legend) + &plot.svg()?,
    })
}

fn stock(report: &RehearsalReport, stretches: &[Stretch], about_part: &str) -> anyhow::Result<Section> {
    let before = stretches.first().map_or(0.0, |stretch| stretch.from_seconds);
    let sold_before: u64 = report
        .timeline
        .iter()
        .filter(|slice| (slice.at_ms as f64) < before * 1000.0)
        .map(|slice| slice.sold)
        .sum();
    let mut sold = so_far(stretches, |stretch| stretch.sold);
    for (_, units) in &mut sold {
        *units += sold_before as f64;
    }
    if let Some(gone) = report.opening.stock_gone_after_seconds {
        reach_at(&mut sold, gone, report.units as f64);
    }
    let most = highest(&sold).max(report.units as f64);
    let level = PlotLayer::Level(report.units as f64);
    let layers = vec![PlotLayer::Shade(GREEN, down_to_zero(&sold)), level, PlotLayer::Line(GREEN, sold)];
    let plot = over_time(report, stretches, "Units sold, over time".to_owned(), most * 1.12, layers);
    let legend = [
        (GREEN, "units sold so far".to_owned()),
        (INK, format!("the {} on sale", counted(report.units, "unit"))),
    ];
    Ok(Section {
        id: "stock",
        title: "How the stock went",
        sentence: format!("A unit that came back unpaid and was sold again counts again.{about_part}"),
        drawing: page::legend(&legend) + &plot.svg()?,
    })
}

fn outcomes(report: &RehearsalReport, stretches: &[Stretch], about_part: &str) -> anyhow::Result<Section> {
    let (codes, rest) = words::most_frequent(&report.refused, words::MAX_REASONS);
    let codes: Vec<&str> = codes.into_iter().map(|(code, _)| code).collect();
    let colours = colours_of(&codes);
    let mut legend = vec![(GREEN, "got a unit".to_owned())];
    let mut heights = vec![(GREEN, a_second(stretches, |stretch| stretch.sold))];
    for (code, colour) in codes.iter().zip(&colours) {
        legend.push((*colour, words::reason(code)));
        let refused = |stretch: &Stretch| stretch.refused.get(*code).copied().unwrap_or(0);
        heights.push((*colour, a_second(stretches, refused)));
    }
    if rest > 0 {
        legend.push((INK, "other reasons".to_owned()));
        let others = |stretch: &Stretch| {
            stretch.refused.iter().filter(|(code, _)| !codes.contains(&code.as_str())).map(|(_, n)| n).sum()
        };
        heights.push((INK, a_second(stretches, others)));
    }
    let (layers, most) = stacked(stretches, heights);
    let label = "Answers to orders a second, by outcome, over time".to_owned();
    let plot = over_time(report, stretches, label, most, layers);
    Ok(Section {
        id: "outcomes",
        title: "What the answers were",
        sentence: format!(
            "Answers to orders a second, one colour for each outcome, on top of each other.{about_part}"
        ),
        drawing: page::legend(&legend) + &plot.svg()?,
    })
}

fn waiting(report: &RehearsalReport, stretches: &[Stretch], about_part: &str) -> anyhow::Result<Section> {
    let mut layers = Vec::new();
    let mut most = 0.0_f64;
    for (colour, height) in [
        (AMBER, (|stretch: &Stretch| stretch.p99_ms) as fn(&Stretch) -> f64),
        (BLUE, |stretch: &Stretch| stretch.p50_ms),
    ] {
        let mut dots = Vec::new();
        for run in stretches.split(|stretch| stretch.answers == 0).filter(|run| !run.is_empty()) {
            let points: Vec<_> = run.iter().map(|stretch| (middle(stretch), height(stretch))).collect();
            most = most.max(highest(&points));
            // A line of one point would be invisible.
            if points.len() == 1 || stretches.len() <= MAX_DOTS {
                dots.extend(points.iter().copied());
            }
            layers.push(PlotLayer::Line(colour, points));
        }
        layers.push(PlotLayer::Dots(colour, dots));
    }
    let label = "Time to the answer to an order, over time".to_owned();
    let plot =
        Plot { y_words: |ms| duration(ms / 1000.0), ..over_time(report, stretches, label, most, layers) };
    let legend =
        [(BLUE, "half waited at most this long".to_owned()), (AMBER, "99 of 100 waited at most".to_owned())];
    Ok(Section {
        id: "waiting",
        title: "How long people waited for an answer",
        sentence: format!(
            "From the moment somebody pressed the button to the answer, for orders answered at that time.{about_part}"
        ),
        drawing: page::legend(&legend) + &plot.svg()?,
    })
}

fn histogram(report: &RehearsalReport) -> anyhow::Result<Section> {
    let mut bars: Vec<_> = report.histogram.iter().filter(|bar| bar.up_to_ms > 0.0).copied().collect();
    bars.sort_by(|one, other| one.up_to_ms.total_cmp(&other.up_to_ms));
    let first = bars.iter().position(|bar| bar.count > 0).unwrap_or(0);
    let after_last = bars.iter().rposition(|bar| bar.count > 0).map_or(0, |last| last + 1);
    let before = first.checked_sub(1).and_then(|index| bars.get(index)).map(|bar| bar.up_to_ms);
    let shown = bars.get(first..after_last).unwrap_or_default();
    let lowest = shown.first().map_or(0.1, |bar| before.unwrap_or(bar.up_to_ms / 2.0));
    let mut from = lowest;
    let (mut layers, mut most) = (Vec::new(), 0.0_f64);
    for together in shown.chunks(shown.len().div_ceil(MAX_BARS).max(1)) {
        let to = together.last().map_or(from, |bar| bar.up_to_ms);
        let count: u64 = together.iter().map(|bar| bar.count).sum();
        let height = count as f64;
        most = most.max(height);
        layers.push(PlotLayer::Area(BLUE, vec![(from, 0.0), (from, height), (to, height), (to, 0.0)]));
        from = to;
    }
    let plot = Plot {
        label: "Orders by the time to their answer".to_owned(),
        // At least a whole decade, so that the axis has two labels.
        x: lowest.min(from / 10.0)..from.max(lowest * 10.0),
        x_is_logarithmic: true,
        x_words: |ms| duration(ms / 1000.0),
        y_most: most * 1.05,
        y_words: |count| short(*count),
        layers,
        marks: Vec::new(),
    };
    Ok(Section {
        id: "histogram",
        title: "All orders by their time to the answer",
        sentence: "How many orders took how long, on a scale with room for the quick and for the slow."
            .to_owned(),
        drawing: plot.svg()?,
    })
}

fn reasons(report: &RehearsalReport) -> Section {
    let (codes, rest) = words::most_frequent(&report.refused, words::MAX_REASONS);
    let names: Vec<&str> = codes.iter().map(|(code, _)| *code).collect();
    let bar = |label: String, count: u64, colour: Colour| page::Bar {
        label,
        shown: thousands(count),
        value: count as f64,
        spread: None,
        colour,
    };
    let mut bars: Vec<_> = codes
        .iter()
        .zip(colours_of(&names))
        .map(|((code, count), colour)| bar(words::reason(code), *count, colour))
        .collect();
    if rest > 0 {
        bars.push(bar("other reasons".to_owned(), rest, INK));
    }
    let settling = words::settling_refusals(report);
    bars.extend(settling.iter().map(|(_, reason, count)| bar(reason.clone(), *count, RED)));
    let total: u64 = report.refused.values().sum();
    let mut sentence = if total == 0 {
        "No order was refused.".to_owned()
    } else {
        "Every order that got no unit got a reason. A buyer who tries again is counted again.".to_owned()
    };
    if !settling.is_empty() {
        sentence +=
            " Payments and cancellations were refused, too; those that could still succeed were sent again.";
    }
    Section { id: "reasons", title: "Why orders were refused", sentence, drawing: page::bars(&bars) }
}

/// The last unit went within a stretch, at a known moment: the line bends there.
fn reach_at(points: &mut Vec<(f64, f64)>, at: f64, height: f64) {
    let index = points.partition_point(|(x, _)| *x < at);
    if points.get(index).is_some_and(|(x, y)| *x > at && *y == height) {
        points.insert(index, (at, height));
    }
}

/// A plot over time, with the moments that matter.
fn over_time(
    report: &RehearsalReport,
    stretches: &[Stretch],
    label: String,
    most: f64,
    layers: Vec<PlotLayer>,
) -> Plot {
    let mut marks = vec![PlotMark { at: 0.0, label: "opening".to_owned() }];
    if let Some(gone) = report.opening.stock_gone_after_seconds {
        marks.push(PlotMark { at: gone, label: format!("stock gone, {}", duration(gone)) });
    }
    Plot {
        label,
        x: seconds(stretches),
        x_is_logarithmic: false,
        x_words: |seconds| format!("{} s", rounded(if seconds.abs() < 1e-9 { 0.0 } else { *seconds })),
        y_most: most * 1.05,
        y_words: |count| short(*count),
        layers,
        marks,
    }
}

fn seconds(stretches: &[Stretch]) -> Range<f64> {
    let from = stretches.first().map_or(0.0, |stretch| stretch.from_seconds);
    let to = stretches.last().map_or(1.0, |stretch| stretch.to_seconds);
    from..to.max(from + 0.001)
}

/// The running total at the end of each stretch.
fn so_far(stretches: &[Stretch], count: impl Fn(&Stretch) -> u64) -> Vec<(f64, f64)> {
    let mut sum = 0;
    let mut points = vec![(seconds(stretches).start, 0.0)];
    for stretch in stretches {
        sum += count(stretch);
        points.push((stretch.to_seconds, sum as f64));
    }
    points
}

fn a_second(stretches: &[Stretch], count: impl Fn(&Stretch) -> u64) -> Vec<f64> {
    stretches
        .iter()
        .map(|stretch| count(stretch) as f64 / (stretch.to_seconds - stretch.from_seconds))
        .collect()
}

/// Stacked areas, with steps where stretches meet, and the height of the highest.
fn stacked(stretches: &[Stretch], heights: Vec<(Colour, Vec<f64>)>) -> (Vec<PlotLayer>, f64) {
    let mut floor = vec![0.0; stretches.len()];
    let mut layers = Vec::new();
    for (colour, heights) in heights {
        let ceiling: Vec<f64> = floor.iter().zip(&heights).map(|(floor, height)| floor + height).collect();
        let mut outline = steps(stretches, &ceiling);
        outline.extend(steps(stretches, &floor).into_iter().rev());
        layers.push(PlotLayer::Area(colour, outline));
        floor = ceiling;
    }
    (layers, floor.into_iter().fold(0.0, f64::max))
}

fn steps(stretches: &[Stretch], heights: &[f64]) -> Vec<(f64, f64)> {
    stretches
        .iter()
        .zip(heights)
        .flat_map(|(stretch, height)| [(stretch.from_seconds, *height), (stretch.to_seconds, *height)])
        .collect()
}

fn down_to_zero(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut outline = points.to_vec();
    outline.extend(points.last().map(|(x, _)| (*x, 0.0)));
    outline.extend(points.first().map(|(x, _)| (*x, 0.0)));
    outline
}

fn middle(stretch: &Stretch) -> f64 {
    f64::midpoint(stretch.from_seconds, stretch.to_seconds)
}

fn highest(points: &[(f64, f64)]) -> f64 {
    points.iter().map(|(_, y)| *y).fold(0.0, f64::max)
}

/// A well-known reason has the same colour in every report; the others share the rest.
fn colours_of(codes: &[&str]) -> Vec<Colour> {
    let known = |code: &str| match code {
        "sold_out" => Some(GREY),
        "busy" | "internal" | "unavailable" => Some(RED),
        "rate_limited" => Some(AMBER),
        "limit_reached" => Some(PURPLE),
        "not_open" => Some(BLUE),
        _ => None,
    };
    let mut taken: Vec<Colour> = codes.iter().filter_map(|code| known(code)).collect();
    codes
        .iter()
        .map(|code| {
            known(code).unwrap_or_else(|| {
                let free =
                    [TEAL, PINK, PURPLE, BLUE, AMBER, RED].into_iter().find(|one| !taken.contains(one));
                let colour = free.unwrap_or(INK);
                taken.push(colour);
                colour
            })
        })
        .collect()
}

/// Short numbers: the labels of an axis have little room.
fn short(count: f64) -> String {
    if count >= 1e6 {
        format!("{} M", rounded(count / 1e6))
    } else if count >= 1e4 {
        format!("{}k", rounded(count / 1e3))
    } else {
        rounded(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_stock_bends_when_the_last_unit_goes() {
        let mut points = vec![(0.0, 0.0), (0.1, 120.0), (0.2, 200.0), (0.3, 200.0)];
        reach_at(&mut points, 0.16, 200.0);
        assert_eq!(points, [(0.0, 0.0), (0.1, 120.0), (0.16, 200.0), (0.2, 200.0), (0.3, 200.0)]);
        // Units that were sold again make the line go on; then no moment is known.
        let mut more = vec![(0.0, 0.0), (0.1, 230.0)];
        reach_at(&mut more, 0.05, 200.0);
        assert_eq!(more, [(0.0, 0.0), (0.1, 230.0)]);
    }

    #[test]
    fn no_two_reasons_have_the_same_colour() {
        let codes = ["sold_out", "pass_invalid", "not_admitted", "rate_limited", "new"];
        let colours = colours_of(&codes);
        for (index, colour) in colours.iter().enumerate() {
            assert!(!colours.iter().skip(index + 1).any(|other| other == colour), "{}", codes[index]);
        }
    }

    #[test]
    fn layers_lie_on_top_of_each_other() {
        let stretch = Stretch { to_seconds: 1.0, ..Stretch::default() };
        let (layers, most) = stacked(&[stretch], vec![(GREEN, vec![2.0]), (GREY, vec![5.0])]);
        assert_eq!(most, 7.0);
        assert!(matches!(
            layers.last(),
            Some(PlotLayer::Area(_, outline)) if *outline == [(0.0, 7.0), (1.0, 7.0), (1.0, 2.0), (0.0, 2.0)]
        ));
    }
}
