//! A setting, and the macro that turns the declarations of `settings.rs` into structs and a table. Reading and
//! printing the configuration both use the table, so they can't diverge.

use std::{fmt, ops::RangeInclusive, path::PathBuf};

use toml::Value;

use super::types::SettingType;

/// A setting with its effective value.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// Such as `http.listen`.
    pub(crate) key: &'static str,
    /// Such as `http`; empty at the top.
    pub(crate) section: &'static str,
    pub(crate) section_about: &'static str,
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) bounds: Option<RangeInclusive<i64>>,
    pub(crate) choices: &'static [&'static str],
    pub(crate) is_secret: bool,
    /// Of the same TOML type as the default.
    pub(crate) value: Value,
    pub(crate) source: ValueSource,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueSource {
    Default,
    File(PathBuf),
    Variable(String),
    Flag(&'static str),
}

impl fmt::Display for ValueSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("the defaults"),
            Self::File(path) => write!(formatter, "{}", path.display()),
            Self::Variable(name) => write!(formatter, "the variable {name}"),
            Self::Flag(flag) => write!(formatter, "the flag {flag}"),
        }
    }
}

impl Setting {
    pub(super) fn new<T: SettingType>(
        key: &'static str,
        section_about: &'static str,
        about: &'static str,
        default: Value,
        bounds: Option<RangeInclusive<i64>>,
    ) -> Self {
        let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
        Self {
            key,
            section,
            section_about: section_about.trim_start(),
            name,
            about: about.trim_start(),
            bounds,
            choices: T::CHOICES,
            is_secret: T::IS_SECRET,
            value: default,
            source: ValueSource::Default,
        }
    }

    /// The error says what is wrong with the value.
    pub(super) fn read<T: SettingType>(&self) -> Result<T, String> {
        if let (Some(bounds), Value::Integer(number)) = (&self.bounds, &self.value)
            && !bounds.contains(number)
        {
            let (min, max) = (bounds.start(), bounds.end());
            return Err(format!("{number} is out of bounds; it has to be {min} to {max}"));
        }
        T::read(&self.value)
    }
}

/// Refuses to compile a default that is out of bounds.
pub(super) const fn bounds(default: i64, bounds: RangeInclusive<i64>) -> RangeInclusive<i64> {
    assert!(*bounds.start() <= default && default <= *bounds.end());
    bounds
}

/// The key of a setting; one at the top has no section.
macro_rules! key {
    ($section:literal, $name:ident) => {
        concat!($section, ".", stringify!($name)).trim_start_matches('.')
    };
}

/// Makes a struct of each section; its settings and the sections inside it become the fields.
macro_rules! settings {
    ($(
        #[doc = $section_about:literal]
        $section:literal $struct:ident {
            $(
                $(#[doc = $about:literal])+
                $name:ident: $type:ty = $default:expr $(, $bounds:expr)?;
            )*
            $(sections { $($part:ident: $part_struct:ident),* $(,)? })?
        }
    )*) => {$(
        #[doc = $section_about]
        #[derive(Clone, Debug)]
        pub(crate) struct $struct {
            $(pub(crate) $name: $type,)*
            $($(pub(crate) $part: $part_struct,)*)?
        }

        impl $struct {
            /// The settings of the section and of those inside it, with their defaults.
            pub(super) fn table() -> Vec<Setting> {
                let settings = [$(Setting::new::<$type>(
                    key!($section, $name),
                    $section_about,
                    concat!($($about),+),
                    toml::Value::from($default),
                    None $(.or(Some(const { bounds($default, $bounds) })))?,
                )),*];
                let parts: Vec<Vec<Setting>> = vec![$($($part_struct::table()),*)?];
                settings.into_iter().chain(parts.into_iter().flatten()).collect()
            }

            /// None: a value is wrong. The layers know every complaint.
            pub(super) fn read(layers: &mut Layers) -> Option<Self> {
                $(let $name = layers.read(key!($section, $name));)*
                $($(let $part = $part_struct::read(layers);)*)?
                Some(Self { $($name: $name?,)* $($($part: $part?,)*)? })
            }
        }
    )*};
}

pub(super) use {key, settings};
