//! Simplexes in lanes, each moving downhill by itself.
//!
//! A lane names the point at which it wants to know the error next; then all points are tried at once, and each lane goes
//! on by its own error. A lane does what it would do alone, in that order, so that its result does not depend on the
//! others.

use super::smoothing::{Damping, bits};
use std::ops::Range;

/// How far the worst vertex is reflected, moved out, or moved in.
const REFLECTION: f64 = 1.0;
const EXPANSION: f64 = 2.0;
const CONTRACTION: f64 = 0.5;
/// A simplex is done when the standard deviation of its errors is below this.
const CLOSE: f64 = 1.0e-4;
/// The most steps of a simplex.
const STEPS_MAX: usize = 1000;

/// Parameters of one lane that are computed together.
const CHUNK: usize = 8;
pub(super) type Chunk = [f64; CHUNK];

/// One simplex for each lane, each with one vertex more than there are parameters.
pub(super) struct Simplexes<const L: usize> {
    /// How many values the model has.
    length: usize,
    /// How many parameters a vertex has, and how many chunks they take.
    count: usize,
    chunks: usize,
    /// By lane and vertex.
    vertices: Vec<Chunk>,
    /// Errors at the vertices.
    pub(super) errors: Vec<[f64; L]>,
    ranks: Ranks<L>,
    /// By lane: the centroid of all vertices but the highest, and the highest vertex reflected.
    centroid: Vec<Chunk>,
    reflected: Vec<Chunk>,
    /// The error of the reflected vertex; at the end that of the lowest vertex.
    error: [f64; L],
    /// The starts of the lanes, by parameter.
    starts: Vec<[f64; L]>,
    /// The points that are tried next, by parameter, and why.
    pub(super) point: Vec<[f64; L]>,
    trying: Trying,
    steps: [usize; L],
    /// If errors differ by more, their standard deviation is not below [`CLOSE`].
    far: f64,
    pub(super) damping: Damping<L>,
}

/// Why lanes try their points: each number but `vertex` is a set of lanes.
#[derive(Default)]
struct Trying {
    /// The vertex of all first simplexes that is tried; `None` once these are complete.
    vertex: Option<usize>,
    reflected: usize,
    expanded: usize,
    contracted: usize,
    /// The highest vertex, and then the second, after the simplex has shrunk.
    highest: usize,
    second: usize,
    /// The lowest vertex, at the end.
    lowest: usize,
}

/// The vertices with the highest error, the second highest and the lowest; of equal ones the first.
pub(super) struct Ranks<const L: usize> {
    pub(super) highest: [u64; L],
    pub(super) second: [u64; L],
    pub(super) lowest: [u64; L],
}

impl<const L: usize> Simplexes<L> {
    /// Regular simplexes with sides of one, each with a vertex at its start, for a model of `length` values.
    pub(super) fn new(length: usize, starts: &[Vec<f64>; L]) -> Self {
        let count = starts[0].len();
        let chunks = count.div_ceil(CHUNK);
        let room = |number: usize| vec![[0.0; CHUNK]; number * chunks];
        let starts = (0..count).map(|place| std::array::from_fn(|lane| starts[lane][place])).collect();
        let mut simplexes = Self {
            length,
            count,
            chunks,
            vertices: room(L * (count + 1)),
            errors: vec![[0.0; L]; count + 1],
            ranks: Ranks { highest: [0; L], second: [0; L], lowest: [0; L] },
            centroid: room(L),
            reflected: room(L),
            error: [0.0; L],
            starts,
            point: vec![[0.0; L]; count],
            trying: Trying::default(),
            steps: [0; L],
            // The deviation of n + 1 numbers is at least their range by √2n; a tenth is for rounding.
            far: 1.1 * CLOSE * ((2 * count) as f64).sqrt(),
            damping: Damping::new(length),
        };
        simplexes.try_first(0);
        simplexes
    }

    /// About how much is computed at once, in values of a model.
    pub(super) fn points_at_once(&self) -> usize {
        L * (2 * self.length + self.count * self.count).max(1)
    }

    /// About how many bytes of memory simplexes take.
    pub(super) fn bytes(length: usize, count: usize) -> usize {
        let vertices = (count + 3).saturating_mul(count.next_multiple_of(CHUNK));
        vertices.saturating_add(4 * count + length).saturating_mul(L * size_of::<f64>())
    }

    /// Goes on by the errors at the points, and says whether there is more to try. `ranked` does what
    /// [`Simplexes::ranked`] does.
    #[inline(always)]
    pub(super) fn advance(&mut self, errors: &[f64; L], ranked: impl Fn(&Self) -> Ranks<L>) -> bool {
        let trying = std::mem::take(&mut self.trying);
        if let Some(vertex) = trying.vertex {
            for (lane, error) in errors.iter().enumerate() {
                self.move_to_point(lane, vertex, *error);
            }
            if vertex < self.count {
                self.try_first(vertex + 1);
            } else {
                self.begin_steps(usize::MAX >> (usize::BITS as usize - L), ranked(self));
            }
            return true;
        }
        let mut ended = 0;
        let mut contracted = self.after_reflection(trying.reflected, errors, &mut ended);
        for lane in bits(trying.expanded) {
            let highest = self.ranks.highest[lane] as usize;
            if errors[lane] < self.error[lane] {
                self.move_to_point(lane, highest, errors[lane]);
            } else {
                self.move_to_reflected(lane, highest);
            }
            // If all errors are equal, the highest vertex is the second too, which has just changed.
            let contracts = self.error[lane] >= self.error_at(self.ranks.second[lane], lane);
            *(if contracts { &mut contracted } else { &mut ended }) |= 1 << lane;
        }
        for lane in bits(contracted) {
            match self.error[lane] < self.error_at(self.ranks.highest[lane], lane) {
                true => self.try_towards_reflected(lane, CONTRACTION),
                false => self.try_away_from_highest(lane, -CONTRACTION),
            }
        }
        self.trying.contracted = contracted;
        for lane in bits(trying.contracted) {
            let highest = self.ranks.highest[lane];
            if errors[lane] < self.error_at(highest, lane) {
                self.move_to_point(lane, highest as usize, errors[lane]);
                ended |= 1 << lane;
            } else {
                self.shrink(lane);
                self.try_vertex(lane, highest as usize);
                self.trying.highest |= 1 << lane;
            }
        }
        for lane in bits(trying.highest) {
            self.move_to_point(lane, self.ranks.highest[lane] as usize, errors[lane]);
            self.try_vertex(lane, self.ranks.second[lane] as usize);
        }
        self.trying.second = trying.highest;
        for lane in bits(trying.second) {
            self.move_to_point(lane, self.ranks.second[lane] as usize, errors[lane]);
        }
        ended |= trying.second;
        for lane in bits(trying.lowest) {
            // Trying changes a point; the vertex stays as it was.
            self.error[lane] = errors[lane];
        }
        if ended != 0 {
            self.begin_steps(ended, ranked(self));
        }
        let Trying { vertex: _, reflected, expanded, contracted, highest, second, lowest } = self.trying;
        reflected | expanded | contracted | highest | second | lowest != 0
    }

    /// The least error of each lane, and its parameters.
    pub(super) fn found(&self) -> impl Iterator<Item = (f64, &[f64])> {
        (0..L).map(|lane| {
            let vertex = &self.vertices[self.span(lane, self.ranks.lowest[lane] as usize)];
            (self.error[lane], &vertex.as_flattened()[..self.count])
        })
    }

    /// Tries the next vertex of the first simplexes.
    fn try_first(&mut self, vertex: usize) {
        let (dimensions, root) = (self.count as f64, (self.errors.len() as f64).sqrt());
        let far = (root - 1.0 + dimensions) / (dimensions * std::f64::consts::SQRT_2);
        let near = (root - 1.0) / (dimensions * std::f64::consts::SQRT_2);
        for (place, (point, start)) in self.point.iter_mut().zip(&self.starts).enumerate() {
            *point = match vertex {
                0 => *start,
                vertex => start.map(|at| at + if place + 1 == vertex { far } else { near }),
            };
        }
        self.trying.vertex = Some(vertex);
    }

    /// Continues the lanes that have tried a reflected vertex. Returns those that contract; adds those whose step has ended
    /// to `ended`.
    #[inline(always)]
    fn after_reflection(&mut self, lanes: usize, errors: &[f64; L], ended: &mut usize) -> usize {
        let (mut moved, mut expanded, mut contracted, mut outside) = (0, 0, 0, 0);
        for lane in bits(lanes) {
            let [highest, second, lowest] = [&self.ranks.highest, &self.ranks.second, &self.ranks.lowest]
                .map(|vertex| self.error_at(vertex[lane], lane));
            let error = errors[lane];
            self.error[lane] = error;
            // Without branches, because they are not predictable.
            moved |= usize::from(error < second && error >= lowest) << lane;
            expanded |= usize::from(error < lowest) << lane;
            contracted |= usize::from(error >= second) << lane;
            outside |= usize::from(error < highest) << lane;
        }
        for lane in bits(moved) {
            self.move_to_point(lane, self.ranks.highest[lane] as usize, errors[lane]);
        }
        // The point changed when it was tried.
        for lane in bits(expanded | contracted & outside) {
            let span = lane * self.chunks..(lane + 1) * self.chunks;
            let reflected = self.reflected[span].as_flattened_mut().iter_mut();
            reflected.zip(&self.point).for_each(|(reflected, point)| *reflected = point[lane]);
        }
        for lane in bits(expanded) {
            self.try_towards_reflected(lane, EXPANSION);
        }
        self.trying.expanded = expanded;
        *ended |= lanes & !expanded & !contracted;
        contracted & !expanded
    }

    /// Ends the lanes that are done, and reflects the highest vertices of the others.
    #[inline(always)]
    fn begin_steps(&mut self, lanes: usize, ranks: Ranks<L>) {
        for lane in bits(lanes) {
            self.ranks.highest[lane] = ranks.highest[lane];
            self.ranks.second[lane] = ranks.second[lane];
            self.ranks.lowest[lane] = ranks.lowest[lane];
            if self.is_done(lane) {
                self.try_vertex(lane, ranks.lowest[lane] as usize);
                self.trying.lowest |= 1 << lane;
            } else {
                self.steps[lane] += 1;
                self.find_centroid(lane);
                self.try_away_from_highest(lane, REFLECTION);
                self.trying.reflected |= 1 << lane;
            }
        }
    }

    #[inline(always)]
    fn is_done(&self, lane: usize) -> bool {
        let range =
            self.error_at(self.ranks.highest[lane], lane) - self.error_at(self.ranks.lowest[lane], lane);
        let is_far = range > self.far;
        self.steps[lane] == STEPS_MAX || (self.steps[lane] > 0 && !is_far && self.spread(lane) < CLOSE)
    }

    /// The standard deviation of the errors at the vertices.
    fn spread(&self, lane: usize) -> f64 {
        let errors = || self.errors.iter().map(|errors| errors[lane]);
        let count = self.errors.len() as f64;
        let mean = errors().fold(0.0, |sum, error| sum + error) / count;
        let squares = errors().map(|error| (error - mean) * (error - mean) / (count - 1.0));
        squares.fold(0.0, |sum, square| sum + square).sqrt()
    }

    #[inline(always)]
    fn error_at(&self, vertex: u64, lane: usize) -> f64 {
        self.errors[vertex as usize][lane]
    }

    #[inline(always)]
    fn span(&self, lane: usize, vertex: usize) -> Range<usize> {
        let start = (lane * (self.count + 1) + vertex) * self.chunks;
        start..start + self.chunks
    }

    /// Moves a vertex to the point that was tried.
    #[inline(always)]
    fn move_to_point(&mut self, lane: usize, vertex: usize, error: f64) {
        let span = self.span(lane, vertex);
        let vertices = self.vertices[span].as_flattened_mut().iter_mut();
        vertices.zip(&self.point).for_each(|(at, point)| *at = point[lane]);
        self.errors[vertex][lane] = error;
    }

    #[inline(always)]
    fn move_to_reflected(&mut self, lane: usize, vertex: usize) {
        let span = self.span(lane, vertex);
        self.vertices[span].copy_from_slice(&self.reflected[lane * self.chunks..(lane + 1) * self.chunks]);
        self.errors[vertex][lane] = self.error[lane];
    }

    #[inline(always)]
    fn try_vertex(&mut self, lane: usize, vertex: usize) {
        let span = self.span(lane, vertex);
        let vertex = self.vertices[span].as_flattened().iter();
        vertex.zip(&mut self.point).for_each(|(at, point)| point[lane] = *at);
    }

    /// Tries a point beyond the centroid, away from the highest vertex, at `part` of their distance.
    #[inline(always)]
    fn try_away_from_highest(&mut self, lane: usize, part: f64) {
        let highest = self.span(lane, self.ranks.highest[lane] as usize).start;
        for chunk in 0..self.chunks {
            let (centroid, from) =
                (&self.centroid[lane * self.chunks + chunk], &self.vertices[highest + chunk]);
            let mut tried = [0.0; CHUNK];
            for place in 0..CHUNK {
                tried[place] = centroid[place] + part * (centroid[place] - from[place]);
            }
            self.try_chunk(lane, chunk, tried);
        }
    }

    /// Tries a point beyond the centroid, towards the reflected vertex, at `part` of their distance.
    #[inline(always)]
    fn try_towards_reflected(&mut self, lane: usize, part: f64) {
        for chunk in lane * self.chunks..(lane + 1) * self.chunks {
            let (centroid, to) = (&self.centroid[chunk], &self.reflected[chunk]);
            let mut tried = [0.0; CHUNK];
            for place in 0..CHUNK {
                tried[place] = centroid[place] + part * (to[place] - centroid[place]);
            }
            self.try_chunk(lane, chunk - lane * self.chunks, tried);
        }
    }

    #[inline(always)]
    fn try_chunk(&mut self, lane: usize, chunk: usize, tried: Chunk) {
        let points = self.point[chunk * CHUNK..].iter_mut();
        points.zip(tried).for_each(|(point, tried)| point[lane] = tried);
    }

    #[inline(always)]
    fn find_centroid(&mut self, lane: usize) {
        let (first, highest) = (self.span(lane, 0).start, self.ranks.highest[lane] as usize);
        for chunk in 0..self.chunks {
            let mut sum = [0.0; CHUNK];
            let mut add = |vertex: usize| {
                let at = &self.vertices[first + vertex * self.chunks + chunk];
                sum.iter_mut().zip(at).for_each(|(sum, at)| *sum += at);
            };
            (0..highest).for_each(&mut add);
            (highest + 1..=self.count).for_each(&mut add);
            self.centroid[lane * self.chunks + chunk] = sum.map(|sum| sum / self.count as f64);
        }
    }

    /// Halves the distance of all vertices to the lowest.
    #[inline(always)]
    fn shrink(&mut self, lane: usize) {
        let (first, lowest) = (self.span(lane, 0).start, self.ranks.lowest[lane] as usize);
        for chunk in 0..self.chunks {
            let to = self.vertices[first + lowest * self.chunks + chunk];
            for vertex in (0..=self.count).filter(|vertex| *vertex != lowest) {
                let at = &mut self.vertices[first + vertex * self.chunks + chunk];
                at.iter_mut().zip(to).for_each(|(at, to)| *at = to + (*at - to) / 2.0);
            }
        }
    }

    /// The ranks of the vertices of all lanes.
    #[inline(always)]
    pub(super) fn ranked(&self) -> Ranks<L> {
        let (mut high, mut low) = (self.errors[0], self.errors[0]);
        let (mut highest, mut lowest) = ([0; L], [0; L]);
        for (vertex, error) in (0_u64..).zip(&self.errors) {
            for lane in 0..L {
                let is_higher = error[lane] > high[lane];
                high[lane] = if is_higher { error[lane] } else { high[lane] };
                highest[lane] = if is_higher { vertex } else { highest[lane] };
                let is_lower = error[lane] < low[lane];
                low[lane] = if is_lower { error[lane] } else { low[lane] };
                lowest[lane] = if is_lower { vertex } else { lowest[lane] };
            }
        }
        let (mut second, mut middle) = (lowest, low);
        for (vertex, error) in (0_u64..).zip(&self.errors) {
            for lane in 0..L {
                let is_between = (error[lane] > middle[lane]) & (error[lane] < high[lane]);
                middle[lane] = if is_between { error[lane] } else { middle[lane] };
                second[lane] = if is_between { vertex } else { second[lane] };
            }
        }
        Ranks { highest, second, lowest }
    }
}
