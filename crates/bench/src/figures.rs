//! Figures by name: of one run, of the median of several, and beside those of something else.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::latency::{median, quantile_ms, rounded};
use super::measure::{Measured, OfOne};
use super::roles::Role;

/// The figures, in the order in which people are to see them. A figure that was not to be had is missing.
#[derive(Clone, Debug, Default)]
pub struct Figures(Vec<(String, f64)>);

/// One figure of a cluster beside that of a floor.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    #[serde(skip)]
    pub name: String,
    pub cluster: f64,
    pub floor: Option<f64>,
    /// The median of the pairs' ratios, because a machine drifts between pairs.
    pub ratio: Option<f64>,
}

impl Figures {
    pub fn add(&mut self, name: impl Into<String>, value: f64) {
        if value.is_finite() {
            self.0.push((name.into(), rounded(value)));
        }
    }

    pub fn get(&self, name: &str) -> Option<f64> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| *value)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The figures of a load.
    pub fn of(measured: &Measured) -> Figures {
        let mut figures = Figures::default();
        let seconds = measured.seconds;
        figures.add("mb_per_s", measured.mb_per_s());
        figures.add("writes_per_s", measured.writes_per_s());
        for (name, quantile) in [
            ("p50_ms", 0.5),
            ("p90_ms", 0.9),
            ("p99_ms", 0.99),
            ("p999_ms", 0.999),
            ("max_ms", 1.0),
        ] {
            figures.add(name, quantile_ms(&measured.micros, quantile));
        }
        figures.add_spread(&measured.of_each);
        figures.add("acks_per_s", measured.acks as f64 / seconds);
        if measured.acks > 0 {
            let mean = measured.acked_bytes as f64 / measured.acks as f64;
            figures.add("mean_ack_bytes", mean);
        }
        let spent = &measured.spent;
        figures.add("cpu_s_per_gb", measured.per_gb(spent.nodes_cpu()));
        figures.add("all_cpu_s_per_gb", measured.per_gb(spent.all_cpu()));
        for role in Role::ALL {
            let Some(of) = spent.of(role) else { continue };
            let role = role.name();
            let (user, system) = (of.user, of.system);
            figures.add(
                format!("{role}_cpu_s_per_gb"),
                measured.per_gb(user + system),
            );
            figures.add(format!("{role}_user_s_per_gb"), measured.per_gb(user));
            figures.add(format!("{role}_system_s_per_gb"), measured.per_gb(system));
            let percent = |time: std::time::Duration| 100.0 * time.as_secs_f64() / seconds;
            figures.add(format!("{role}_user_percent"), percent(user));
            figures.add(format!("{role}_system_percent"), percent(system));
        }
        let per_byte = |bytes: u64| bytes as f64 / measured.acked_bytes.max(1) as f64;
        for role in [Role::Leader, Role::Follower, Role::Auxiliary] {
            let Some(of) = spent.of(role) else { continue };
            let role = role.name();
            figures.add(format!("{role}_disk_per_byte"), per_byte(of.written_bytes));
            figures.add(format!("{role}_peak_mb"), of.peak_rss_bytes as f64 / 1e6);
        }
        if let Some(traffic) = &spent.traffic {
            figures.add("disk_writes_per_s", traffic.writes as f64 / seconds);
            figures.add("disk_flushes_per_s", traffic.flushes as f64 / seconds);
            figures.add(
                "disk_mb_per_s",
                traffic.written_bytes as f64 / 1e6 / seconds,
            );
        }
        figures
    }

    /// Whether each log got its share.
    fn add_spread(&mut self, logs: &[OfOne]) {
        let ends = |of: &dyn Fn(&OfOne) -> f64| {
            let values = || logs.iter().map(of);
            let least = values().fold(f64::INFINITY, f64::min);
            (least, values().fold(0.0, f64::max))
        };
        if logs.len() > 1 {
            let (least, most) = ends(&|one| quantile_ms(&one.micros, 0.99));
            self.add("p99_least_log_ms", least);
            self.add("p99_most_log_ms", most);
            self.add("p99_most_of_least_log", most / least);
            let (least, most) = ends(&|one| one.acked_bytes as f64);
            self.add("bytes_most_of_least_log", most / least);
        }
    }

    /// The median of each figure; for a maximum and a peak, the largest.
    pub fn median(all: &[&Figures]) -> Figures {
        let mut medians = Figures::default();
        let Some(first) = all.first() else {
            return medians;
        };
        for name in first.names() {
            let values = all.iter().filter_map(|figures| figures.get(name));
            let value = match name.starts_with("max_") || name.ends_with("_peak_mb") {
                true => values.fold(0.0, f64::max),
                false => median(values),
            };
            medians.add(name, value);
        }
        medians
    }

    /// `pairs`: cluster and floor, measured one after the other.
    pub fn compare(pairs: &[(&Figures, &Figures)]) -> Vec<Compared> {
        let clusters: Vec<&Figures> = pairs.iter().map(|pair| pair.0).collect();
        let floors: Vec<&Figures> = pairs.iter().map(|pair| pair.1).collect();
        let (cluster, floor) = (Figures::median(&clusters), Figures::median(&floors));
        let compared = |name: &str| {
            let ratios: Vec<f64> = pairs
                .iter()
                .filter_map(|(cluster, floor)| Some(cluster.get(name)? / floor.get(name)?))
                .filter(|ratio| ratio.is_finite())
                .collect();
            Some(Compared {
                name: name.to_owned(),
                cluster: cluster.get(name)?,
                floor: floor.get(name),
                ratio: (!ratios.is_empty()).then(|| rounded(median(ratios))),
            })
        };
        cluster.names().filter_map(compared).collect()
    }
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Figures {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Figures, D::Error> {
        struct ByName;
        impl<'de> Visitor<'de> for ByName {
            type Value = Figures;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("figures by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Figures, A::Error> {
                let mut all = Vec::new();
                while let Some(one) = map.next_entry()? {
                    all.push(one);
                }
                Ok(Figures(all))
            }
        }
        deserializer.deserialize_map(ByName)
    }
}

/// As a map by name.
pub fn by_name<S: Serializer>(all: &[Compared], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(all.iter().map(|one| (&one.name, one)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(rate: f64, max: f64) -> Figures {
        let mut figures = Figures::default();
        figures.add("mb_per_s", rate);
        figures.add("max_ms", max);
        figures
    }

    #[test]
    fn a_ratio_is_of_neighbours_and_a_maximum_of_all() {
        // The machine slows down by ten, and the cluster is half as fast as its neighbour throughout.
        let (c1, f1) = (figures(100.0, 1.0), figures(200.0, 1.0));
        let (c2, f2) = (figures(10.0, 9.0), figures(20.0, 3.0));
        let compared = Figures::compare(&[(&c1, &f1), (&c2, &f2), (&c2, &f2)]);
        assert_eq!(compared[0].cluster, 10.0);
        assert_eq!(compared[0].ratio, Some(0.5));
        assert_eq!(compared[1].cluster, 9.0);
        assert_eq!(compared[1].floor, Some(3.0));
    }

    #[test]
    fn figures_are_read_as_they_were_written() {
        let written = serde_json::to_string(&figures(1.5, 7.0)).unwrap();
        let read: Figures = serde_json::from_str(&written).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), written);
        assert_eq!(read.get("max_ms"), Some(7.0));
    }

    #[test]
    fn what_cannot_be_divided_has_no_ratio() {
        let (cluster, floor) = (figures(1.0, 1.0), figures(0.0, 0.0));
        assert_eq!(Figures::compare(&[(&cluster, &floor)])[0].ratio, None);
    }
}
