//! Plots as inline SVG, drawn by plotters. Each is drawn for a screen and for a phone, and the style sheet
//! shows the one that fits, so text keeps its size. Knows nothing of rehearsals.

use std::ops::Range;

use anyhow::Context;
use plotters::{
    coord::ranged1d::{AsRangedCoord, ValueFormatter},
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::page::{AXIS, Colour, GRID, INK, escape};

/// Plotters knows only whole pixels, so it draws at twice the size.
const SCALE: u32 = 2;
/// Plotters takes the font size for the line height.
const FONT_PIXELS: f64 = 13.0 * 1.24;

/// One element of a plot, in the plot's own coordinates.
#[derive(Clone, Debug)]
pub(super) enum PlotLayer {
    /// A filled outline.
    Area(Colour, Vec<(f64, f64)>),
    /// A filled outline faint enough to show lines through it.
    Shade(Colour, Vec<(f64, f64)>),
    Line(Colour, Vec<(f64, f64)>),
    Dots(Colour, Vec<(f64, f64)>),
    /// A dashed horizontal line.
    Level(f64),
}

/// A moment, as a vertical line with its name above.
#[derive(Clone, Debug)]
pub(super) struct PlotMark {
    pub(super) at: f64,
    pub(super) label: String,
}

#[derive(Clone, Debug)]
pub(super) struct Plot {
    /// A description for those who can't see the plot.
    pub(super) label: String,
    pub(super) x: Range<f64>,
    /// The x axis is logarithmic.
    pub(super) x_is_logarithmic: bool,
    pub(super) x_words: fn(&f64) -> String,
    pub(super) y_most: f64,
    pub(super) y_words: fn(&f64) -> String,
    pub(super) layers: Vec<PlotLayer>,
    /// Ordered by time.
    pub(super) marks: Vec<PlotMark>,
}

/// The size, and how many labels fit on the axes.
struct Size {
    class: &'static str,
    width: u32,
    height: u32,
    x_labels: usize,
    y_labels: usize,
}

const SIZES: [Size; 2] = [
    Size { class: "wide", width: 830, height: 270, x_labels: 10, y_labels: 5 },
    Size { class: "narrow", width: 340, height: 230, x_labels: 5, y_labels: 5 },
];

/// Plotters guesses the width of text, and labels are short: a fixed margin looks calmer.
const Y_LABELS_WIDTH: u32 = 58;
const X_LABELS_HEIGHT: u32 = 24;
const MARK_HEIGHT: i32 = 16;
const MARK_GAP: i32 = 5;
const MARK_CHARACTER_WIDTH: f64 = 7.5;

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Chart<'a, 'b, X> = ChartContext<
    'a,
    SVGBackend<'b>,
    Cartesian2d<<X as AsRangedCoord>::CoordDescType, plotters::coord::types::RangedCoordf64>,
>;

impl Plot {
    pub(super) fn svg(&self) -> anyhow::Result<String> {
        let mut both = String::new();
        for size in &SIZES {
            both.push_str(&self.svg_of(size).with_context(|| format!("cannot draw {:?}", self.label))?);
        }
        Ok(both)
    }

    fn svg_of(&self, size: &Size) -> anyhow::Result<String> {
        let (width, height) = (size.width * SCALE, size.height * SCALE);
        let mut drawn = String::new();
        {
            let area = SVGBackend::with_string(&mut drawn, (width, height)).into_drawing_area();
            if self.x_is_logarithmic {
                let ticks = round_numbers(&self.x, size.x_labels);
                self.draw(&area, size, self.x.clone().log_scale().with_key_points(ticks))?;
            } else {
                self.draw(&area, size, self.x.clone())?;
            }
            area.present()?;
        }
        // Only a separate file needs the name space that plotters adds.
        let (_, inside) = drawn.split_once('>').context("plotters drew no SVG")?;
        Ok(format!(
            "<svg class=\"plot {}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">{inside}",
            size.class,
            escape(&self.label)
        ))
    }

    fn draw<X>(&self, area: &Area<'_>, size: &Size, x: X) -> anyhow::Result<()>
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
    {
        let rows = u32::try_from(self.marks.len()).unwrap_or(0);
        let mut chart = ChartBuilder::on(area)
            .margin_right(14 * SCALE)
            .margin_top((8 + rows * MARK_HEIGHT as u32) * SCALE)
            .set_label_area_size(LabelAreaPosition::Left, Y_LABELS_WIDTH * SCALE)
            .set_label_area_size(LabelAreaPosition::Bottom, X_LABELS_HEIGHT * SCALE)
            .build_cartesian_2d(x, 0.0..self.y_most.max(f64::MIN_POSITIVE))?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .y_max_light_lines(0)
            .x_labels(size.x_labels)
            .y_labels(size.y_labels)
            .x_label_formatter(&self.x_words)
            .y_label_formatter(&self.y_words)
            .label_style(font(INK))
            .axis_style(colour(AXIS).stroke_width(SCALE))
            .bold_line_style(colour(GRID).stroke_width(SCALE))
            .draw()?;
        for layer in &self.layers {
            self.draw_layer::<X>(&mut chart, layer)?;
        }
        self.draw_marks::<X>(area, &chart)
    }

    fn draw_layer<X>(&self, chart: &mut Chart<'_, '_, X>, layer: &PlotLayer) -> anyhow::Result<()>
    where
        X: AsRangedCoord<Value = f64>,
    {
        match layer {
            PlotLayer::Area(fill, points) => {
                chart.draw_series([Polygon::new(points.clone(), colour(*fill).filled())])?;
            }
            PlotLayer::Shade(fill, points) => {
                chart.draw_series([Polygon::new(points.clone(), colour(*fill).mix(0.25).filled())])?;
            }
            PlotLayer::Line(stroke, points) => {
                let style = colour(*stroke).stroke_width(2 * SCALE);
                chart.draw_series([PathElement::new(points.clone(), style)])?;
            }
            PlotLayer::Dots(fill, points) => {
                let style = colour(*fill).filled();
                chart.draw_series(points.iter().map(|point| Circle::new(*point, 3 * SCALE, style)))?;
            }
            PlotLayer::Level(y) => {
                let ends = [(self.x.start, *y), (self.x.end, *y)];
                let style = colour(INK).stroke_width(SCALE);
                let dash = 5 * SCALE;
                chart.draw_series(DashedLineSeries::new(ends, dash, dash, style))?;
            }
        }
        Ok(())
    }

    /// Names are written to the right of their lines, from top to bottom; if the last one has no room there,
    /// to the left, from bottom to top. Either way no line crosses a name.
    fn draw_marks<X>(&self, area: &Area<'_>, chart: &Chart<'_, '_, X>) -> anyhow::Result<()>
    where
        X: AsRangedCoord<Value = f64>,
    {
        let scale = SCALE as i32;
        let right_edge = i32::try_from(area.dim_in_pixel().0)?;
        let mut marks = Vec::new();
        for mark in self.marks.iter().filter(|mark| self.x.contains(&mark.at)) {
            marks.push((chart.backend_coord(&(mark.at, 0.0)), mark));
        }
        let fits = |x: i32, mark: &PlotMark| {
            let width = mark.label.chars().count() as f64 * MARK_CHARACTER_WIDTH;
            x + (width as i32 + MARK_GAP) * scale < right_edge
        };
        let to_the_right = marks.last().is_none_or(|((x, _), mark)| fits(*x, mark));
        if !to_the_right {
            marks.reverse();
        }
        let (side, gap) = if to_the_right { (HPos::Left, MARK_GAP) } else { (HPos::Right, -MARK_GAP) };
        let style = font(INK).pos(Pos::new(side, VPos::Top));
        let mut top = 4 * scale;
        for ((x, bottom), mark) in marks {
            let line = colour(INK).stroke_width(3);
            area.draw(&PathElement::new([(x, top), (x, bottom)], line))?;
            let place = (x + gap * scale, top - 2 * scale);
            area.draw(&Text::new(mark.label.as_str(), place, style.clone()))?;
            top += MARK_HEIGHT * scale;
        }
        Ok(())
    }
}

/// 1, 2, 5, 10, 20 and so on; if that is too many, 1, 10 and so on.
fn round_numbers(range: &Range<f64>, most: usize) -> Vec<f64> {
    let powers = range.start.log10().floor() as i32..=range.end.log10().ceil() as i32;
    let numbers = |steps: &[f64]| -> Vec<f64> {
        let all = powers.clone().flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
        all.filter(|number| range.contains(number)).collect()
    };
    let fine = numbers(&[1.0, 2.0, 5.0]);
    if fine.len() <= most { fine } else { numbers(&[1.0]) }
}

fn colour(colour: Colour) -> RGBColor {
    let (red, green, blue) = colour.light;
    RGBColor(red, green, blue)
}

fn font<'a>(ink: Colour) -> TextStyle<'a> {
    ("sans-serif", FONT_PIXELS * f64::from(SCALE)).into_font().color(&colour(ink)).into_text_style(&(0, 0))
}
