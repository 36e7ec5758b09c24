//! Plots as inline SVG, drawn by plotters. Each is drawn twice, for a screen and for a phone, and the style sheet
//! shows the one that fits: text keeps its size. Knows nothing of rehearsals.

use std::ops::Range;

use anyhow::Context;
use plotters::{
    coord::ranged1d::{AsRangedCoord, ValueFormatter},
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::page::{AXIS, Colour, GRID, INK, escape};

/// Plotters knows whole pixels only, so it draws at twice the size.
const SCALE: u32 = 2;
/// Plotters takes the size of a font for its line's height.
const FONT_PIXELS: f64 = 13.0 * 1.24;

/// One thing to be drawn, in the plot's own coordinates.
#[derive(Clone, Debug)]
pub(super) enum Layer {
    /// A filled outline.
    Area(Colour, Vec<(f64, f64)>),
    Line(Colour, Vec<(f64, f64)>),
    Dots(Colour, Vec<(f64, f64)>),
    /// A dashed line across, with its name.
    Level(f64, String),
}

/// A moment, as a line from top to bottom with its name above.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) at: f64,
    pub(super) label: String,
    pub(super) colour: Colour,
}

#[derive(Clone, Debug)]
pub(super) struct Plot {
    /// What it shows, for those who can't see it.
    pub(super) label: String,
    pub(super) x: Range<f64>,
    /// Each step to the right multiplies.
    pub(super) x_is_logarithmic: bool,
    pub(super) x_words: fn(&f64) -> String,
    pub(super) y_most: f64,
    pub(super) y_words: fn(&f64) -> String,
    pub(super) layers: Vec<Layer>,
    pub(super) marks: Vec<Mark>,
}

/// How large, and how many names fit on the axes.
struct Size {
    class: &'static str,
    width: u32,
    height: u32,
    x_labels: usize,
    y_labels: usize,
}

const SIZES: [Size; 2] = [
    Size { class: "wide", width: 830, height: 270, x_labels: 10, y_labels: 5 },
    Size { class: "narrow", width: 340, height: 230, x_labels: 5, y_labels: 4 },
];

/// Plotters measures text by guessing, and names of values are short: a fixed margin looks calmer.
const Y_LABELS_WIDTH: u32 = 58;
const X_LABELS_HEIGHT: u32 = 24;
const MARK_HEIGHT: i32 = 16;

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
                self.draw(&area, size, self.x.clone().log_scale())?;
            } else {
                self.draw(&area, size, self.x.clone())?;
            }
            area.present()?;
        }
        // The name space that plotters gives is needed in a file of its own only.
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
            self.draw_layer::<X>(area, &mut chart, layer)?;
        }
        for (row, mark) in self.marks.iter().enumerate() {
            self.draw_mark::<X>(area, &mut chart, mark, i32::try_from(row)?)?;
        }
        Ok(())
    }

    fn draw_layer<X>(
        &self,
        area: &Area<'_>,
        chart: &mut Chart<'_, '_, X>,
        layer: &Layer,
    ) -> anyhow::Result<()>
    where
        X: AsRangedCoord<Value = f64>,
    {
        match layer {
            Layer::Area(fill, points) => {
                chart.draw_series([Polygon::new(points.clone(), colour(*fill).filled())])?;
            }
            Layer::Line(stroke, points) => {
                let style = colour(*stroke).stroke_width(2 * SCALE);
                chart.draw_series([PathElement::new(points.clone(), style)])?;
            }
            Layer::Dots(fill, points) => {
                let style = colour(*fill).filled();
                chart.draw_series(points.iter().map(|point| Circle::new(*point, 3 * SCALE, style)))?;
            }
            Layer::Level(y, label) => {
                let ends = [(self.x.start, *y), (self.x.end, *y)];
                let style = colour(INK).stroke_width(SCALE);
                let dash = 5 * SCALE;
                chart.draw_series(DashedLineSeries::new(ends, dash, dash, style))?;
                let (x_pixels, y_pixels) = chart.backend_coord(&(self.x.end, *y));
                let style = font(INK).pos(Pos::new(HPos::Right, VPos::Bottom));
                area.draw(&Text::new(label.clone(), (x_pixels - 4, y_pixels - 4), style))?;
            }
        }
        Ok(())
    }

    fn draw_mark<X>(
        &self,
        area: &Area<'_>,
        chart: &mut Chart<'_, '_, X>,
        mark: &Mark,
        row: i32,
    ) -> anyhow::Result<()>
    where
        X: AsRangedCoord<Value = f64>,
    {
        if !self.x.contains(&mark.at) {
            return Ok(());
        }
        let (x, bottom) = chart.backend_coord(&(mark.at, 0.0));
        let scale = SCALE as i32;
        let top = (row * MARK_HEIGHT + 4) * scale;
        let line = colour(mark.colour).stroke_width(3);
        area.draw(&PathElement::new([(x, top), (x, bottom)], line))?;
        // The name stands on the side that has more room.
        let middle = (self.x.start + self.x.end) / 2.0;
        let (side, gap) = if mark.at < middle { (HPos::Left, 5 * scale) } else { (HPos::Right, -5 * scale) };
        let style = font(mark.colour).pos(Pos::new(side, VPos::Top));
        area.draw(&Text::new(mark.label.clone(), (x + gap, top - 2 * scale), style))?;
        Ok(())
    }
}

fn colour(colour: Colour) -> RGBColor {
    let (red, green, blue) = colour.light;
    RGBColor(red, green, blue)
}

fn font<'a>(ink: Colour) -> TextStyle<'a> {
    ("sans-serif", FONT_PIXELS * f64::from(SCALE)).into_font().color(&colour(ink)).into_text_style(&(0, 0))
}
