//! Phone numbers as people write them. phonelib knows the lengths and prefixes of each country.

use std::{fmt, str::FromStr, sync::LazyLock};

use hashbrown::HashSet;
use phonelib::PhoneNumber;

/// The longest text of a phone number; a third of it is enough for any.
const MAX_TEXT_BYTES: usize = 64;
const INVALID: &str = "has to be a phone number such as +8613800138000";
const NO_COUNTRY: &str =
    "is not a number of this country: choose another, or begin with its code, such as +8613800138000";

/// The country of numbers without a country code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Country(&'static phonelib::Country);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("has to be the two letters of a country, such as CN")]
pub struct UnknownCountry;

impl FromStr for Country {
    type Err = UnknownCountry;

    fn from_str(code: &str) -> Result<Self, UnknownCountry> {
        Self::all().iter().find(|country| country.code() == code).copied().ok_or(UnknownCountry)
    }
}

/// China.
impl Default for Country {
    fn default() -> Self {
        let china = phonelib::countries().iter().find(|country| country.code == "CN");
        Self(china.unwrap_or(&phonelib::countries()[0]))
    }
}

impl fmt::Display for Country {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.code())
    }
}

impl Country {
    /// Each country once; some have several ranges of numbers.
    pub fn all() -> &'static [Self] {
        static ALL: LazyLock<Vec<Country>> = LazyLock::new(|| {
            let mut seen = HashSet::new();
            // Ranges without a country have a number as their code.
            let is_country = |code: &str| code.bytes().all(|byte| byte.is_ascii_uppercase());
            let countries = phonelib::countries().iter();
            countries
                .filter(|country| is_country(country.code) && seen.insert(country.code))
                .map(Country)
                .collect()
        });
        &ALL
    }

    /// The ISO 3166 code.
    pub fn code(self) -> &'static str {
        self.0.code
    }

    /// The digits after the plus. For North America, phonelib includes the area code.
    pub fn calling_code(self) -> u32 {
        if self.0.prefix.to_string().starts_with('1') { 1 } else { self.0.prefix }
    }
}

/// A phone number, read from text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phone {
    /// In E.164, the form of new accounts, without the extra digit of mobile numbers in some countries. All
    /// limits by phone use this form.
    pub number: String,
    /// In E.164 as it was written: codes are sent there.
    pub reached_at: String,
    /// The forms in which accounts of this phone may be stored, the likeliest first. Numbers used to be
    /// stored as they were written, so that one phone could have three accounts. Each of them can still sign
    /// in.
    pub forms: Vec<String>,
}

impl Phone {
    /// Reads a phone number. Characters that people write between the digits are dropped, and two leading
    /// zeros mean a plus. Without a plus it is a number of `country`, or of `home` if no country is given,
    /// with or without that country's code.
    pub fn read(text: &str, country: Option<Country>, home: Country) -> Result<Self, &'static str> {
        let written = Written::of(text)?;
        let reached_at = match &written {
            Written::International(digits) => international(digits)?,
            Written::National(digits) => {
                national(digits, country.unwrap_or(home)).ok_or(NO_COUNTRY)?.e164().to_owned()
            }
        };
        let as_written = written.as_stored_once().filter(|_| country.is_none_or(|country| country == home));
        let number = as_counted(&reached_at);
        let with_mobile_digit = with_mobile_digit(&number);
        let stored =
            [&number].into_iter().chain(&with_mobile_digit).flat_map(|number| stored_as(number, home));
        let mut forms: Vec<String> = Vec::new();
        for form in as_written.into_iter().chain(stored) {
            if !forms.contains(&form) {
                forms.push(form);
            }
        }
        Ok(Self { number, reached_at, forms })
    }

    /// The same for the owner of an existing account, whose number might not be accepted today.
    pub fn of_account(text: &str, country: Option<Country>, home: Country) -> Result<Self, &'static str> {
        Self::read(text, country, home).or_else(|problem| {
            let digits = Written::of(text)?.as_stored_once().ok_or(problem)?;
            let number = format!("+{}", digits.trim_start_matches('+'));
            Ok(Self { forms: vec![digits, number.clone()], reached_at: number.clone(), number })
        })
    }
}

/// Countries where mobile numbers may have an extra digit after the country code, which does not change the
/// number: Mexico until 2019, and Argentina for calls from abroad.
const MOBILE_DIGITS: [(&str, &str); 2] = [("+52", "1"), ("+54", "9")];
/// The digits after the country code and the extra digit in these countries.
const DIGITS_AFTER_MOBILE_DIGIT: usize = 10;

fn without_mobile_digit(number: &str) -> Option<String> {
    MOBILE_DIGITS.iter().find_map(|(country, digit)| {
        let rest = number.strip_prefix(country)?.strip_prefix(digit)?;
        (rest.len() == DIGITS_AFTER_MOBILE_DIGIT).then(|| format!("{country}{rest}"))
    })
}

/// The canonical form of a number.
fn as_counted(number: &str) -> String {
    without_mobile_digit(number).unwrap_or_else(|| number.to_owned())
}

fn with_mobile_digit(number: &str) -> Option<String> {
    MOBILE_DIGITS.iter().find_map(|(country, digit)| {
        let rest = number.strip_prefix(country)?;
        (rest.len() == DIGITS_AFTER_MOBILE_DIGIT).then(|| format!("{country}{digit}{rest}"))
    })
}

/// A number in E.164, and the forms in which it was stored when it came without a plus or a country code.
/// Without a plus, +1 380 013 8000 is a Chinese number. So forms that are a different number at home are left
/// out: an account stored like that belongs to the other number.
fn stored_as(number: &str, home: Country) -> impl Iterator<Item = String> {
    let digits = number.trim_start_matches('+').to_owned();
    let at_home = digits.strip_prefix(&home.calling_code().to_string()).map(str::to_owned);
    let counted = as_counted(number);
    let is_this =
        move |form: &String| national(form, home).is_none_or(|read| as_counted(read.e164()) == counted);
    let without_plus = [Some(digits), at_home].into_iter().flatten();
    [number.to_owned()].into_iter().chain(without_plus.filter(is_this))
}

/// The digits of a number, with or without a plus before them.
enum Written {
    International(String),
    National(String),
}

impl Written {
    fn of(text: &str) -> Result<Self, &'static str> {
        let phone: String = text.chars().map(narrow).filter(|character| !is_between(*character)).collect();
        let after_plus = phone.strip_prefix('+').or_else(|| phone.strip_prefix("00"));
        let digits = after_plus.unwrap_or(&phone);
        let acceptable = (6..=15).contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && !(after_plus.is_some() && digits.starts_with('0'))
            && text.len() <= MAX_TEXT_BYTES;
        match acceptable {
            true if after_plus.is_some() => Ok(Self::International(digits.to_owned())),
            true => Ok(Self::National(digits.to_owned())),
            false => Err(INVALID),
        }
    }

    /// The form in which accounts were stored when numbers were kept as written. None began with a zero.
    fn as_stored_once(&self) -> Option<String> {
        match self {
            Self::International(digits) => Some(format!("+{digits}")),
            Self::National(digits) => (!digits.starts_with('0')).then(|| digits.clone()),
        }
    }
}

/// A number of an unknown country, such as one of a rehearsal, is accepted as it is.
fn international(digits: &str) -> Result<String, &'static str> {
    let number = format!("+{digits}");
    Ok(PhoneNumber::parse(&number).map_or(number, |parsed| parsed.e164().to_owned()))
}

/// Where numbers vary in length, a number with its country code could also be a different one of the country
/// without it. Codes are sent to mobile phones, so the reading that is a mobile number is meant.
fn national(digits: &str, country: Country) -> Option<PhoneNumber> {
    let without_code = PhoneNumber::parse_with_country(digits, country.code());
    let calling_code = country.calling_code().to_string();
    let with_code =
        digits.starts_with(&calling_code).then(|| PhoneNumber::parse(&format!("+{digits}"))).flatten();
    match (without_code, with_code) {
        (Some(without_code), Some(with_code)) if with_code.is_mobile() && !without_code.is_mobile() => {
            Some(with_code)
        }
        (without_code, with_code) => without_code.or(with_code),
    }
}

/// The Latin form of a character: Chinese keyboards have full-width digits, brackets and plus signs.
fn narrow(character: char) -> char {
    const TO_NARROW: u32 = '\u{ff01}' as u32 - '!' as u32;
    match character {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(character as u32 - TO_NARROW).unwrap_or(character),
        other => other,
    }
}

/// Spaces, hyphens, brackets, dots, and invisible marks that come along when a number is copied.
fn is_between(character: char) -> bool {
    character.is_whitespace()
        || matches!(character, '-' | '(' | ')' | '[' | ']' | '.' | '\u{2010}'..='\u{2015}' | '\u{2212}')
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn country(code: &str) -> Country {
        code.parse().unwrap()
    }

    fn number(text: &str, home: &str) -> Result<String, &'static str> {
        Phone::read(text, None, country(home)).map(|phone| phone.number)
    }

    #[test]
    fn phone_numbers_are_read_in_the_ways_people_write_them() {
        for text in [
            "+86 138-0013-8000",
            " (+86) 138.0013.8000\t",
            "[+86]\u{a0}138\u{3000}0013\u{2009}8000",
            "+86\u{2011}138\u{2013}0013\u{2212}8000",
            "\u{202a}+86 138 0013 8000\u{202c}",
            "＋８６（１３８）００１３－８０００",
            "008613800138000",
            "00 86 138 0013 8000",
            "13800138000",
            "138 0013 8000",
            "(138) 0013-8000",
            "8613800138000",
            "86 138 0013 8000",
            "013800138000",
        ] {
            assert_eq!(number(text, "CN").unwrap(), "+8613800138000", "{text}");
        }
        for text in [
            "",
            "+",
            "12345",
            "+1234567890123456",
            "abc1234567",
            "+86١٢٣٤٥٦٧",
            "1+234567",
            "000123456",
            "00+8613800138000",
            "+008613800138000",
            "123456",
            &format!("+8613800138000{}", " ".repeat(MAX_TEXT_BYTES)),
        ] {
            assert!(number(text, "CN").is_err(), "{text}");
        }
        assert_eq!(number("+999 0001 0000001", "CN").unwrap(), "+99900010000001", "a rehearsal's");
    }

    #[test]
    fn without_a_country_code_it_is_a_number_of_the_country() {
        for (text, home, expected) in [
            ("0151 1234 5678", "DE", "+4915112345678"),
            ("151 1234 5678", "DE", "+4915112345678"),
            ("49 151 1234 5678", "DE", "+4915112345678"),
            ("+49 151 1234 5678", "CN", "+4915112345678"),
            ("(202) 555-0173", "US", "+12025550173"),
            ("1 202 555 0173", "US", "+12025550173"),
            ("06 1234 5678", "IT", "+390612345678"),
            ("07400 123456", "GB", "+447400123456"),
            ("090-1234-5678", "JP", "+819012345678"),
            ("9123 4567", "HK", "+85291234567"),
        ] {
            assert_eq!(number(text, home).as_deref(), Ok(expected), "{text} in {home}");
        }
        let chosen = Phone::read("0151 1234 5678", Some(country("DE")), country("CN")).unwrap();
        assert_eq!(chosen.number, "+4915112345678");
        assert_eq!(chosen.forms, ["+4915112345678", "4915112345678"]);
    }

    #[test]
    fn an_account_is_looked_up_under_all_forms_in_which_it_may_be_stored() {
        let forms = |text: &str| Phone::of_account(text, None, country("CN")).unwrap().forms;
        assert_eq!(forms("13800138000"), ["13800138000", "+8613800138000", "8613800138000"]);
        assert_eq!(forms("8613800138000"), ["8613800138000", "+8613800138000", "13800138000"]);
        assert_eq!(forms("+8613800138000"), ["+8613800138000", "8613800138000", "13800138000"]);
        assert_eq!(forms("+4915112345678"), ["+4915112345678", "4915112345678"]);
        assert_eq!(forms("+1 380 013 8000"), ["+13800138000"], "without the plus it is a Chinese number");
        assert_eq!(forms("123456"), ["123456", "+123456"], "not a Chinese number, but accepted in the past");
        assert!(Phone::of_account("not a phone", None, country("CN")).is_err());
    }

    #[test]
    fn a_mobile_number_is_the_same_with_and_without_the_extra_digit() {
        for (written, home, expected) in [
            ("+52 1 55 1234 5678", "CN", "+525512345678"),
            ("+52 55 1234 5678", "CN", "+525512345678"),
            ("55 1234 5678", "MX", "+525512345678"),
            ("+54 9 11 2345 6789", "CN", "+541123456789"),
            ("+54 11 2345 6789", "CN", "+541123456789"),
            ("9 11 2345 6789", "AR", "+541123456789"),
            ("11 2345 6789", "AR", "+541123456789"),
        ] {
            assert_eq!(number(written, home).as_deref(), Ok(expected), "{written} in {home}");
        }
        let phone = Phone::read("+54 9 11 2345 6789", None, country("AR")).unwrap();
        assert_eq!(phone.reached_at, "+5491123456789", "as it is called from abroad");
        let mut forms = phone.forms;
        forms.sort();
        let with = ["+5491123456789", "5491123456789", "91123456789"];
        let without = ["+541123456789", "541123456789", "1123456789"];
        let mut expected = [with, without].concat();
        expected.sort_unstable();
        assert_eq!(forms, expected);
    }

    #[test]
    fn countries_are_known_by_two_letters() {
        assert_eq!(country("CN").calling_code(), 86);
        assert_eq!(country("US").calling_code(), 1);
        assert_eq!(country("DO").calling_code(), 1);
        for unknown in ["", "C", "cn", "XX", "001", "CHN"] {
            assert_eq!(unknown.parse::<Country>(), Err(UnknownCountry), "{unknown}");
        }
        let codes: Vec<&str> = Country::all().iter().map(|country| country.code()).collect();
        let distinct: std::collections::HashSet<&&str> = codes.iter().collect();
        assert!(codes.len() > 200 && distinct.len() == codes.len());
    }
}
