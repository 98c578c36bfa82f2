//! Simplexes in lanes, each walking downhill by itself.
//!
//! Each walks on its own way, so a lane only says at which point it wants to know the error next; then all points are
//! tried at once, and each lane goes on. What a lane does is what it would do alone, in its order, so that its result
//! does not depend on the others.

use super::super::smoothing::{Damping, bits};
use std::ops::Range;

/// How far the worst corner is turned over, drawn out, or drawn in.
const REFLECTION: f64 = 1.0;
const EXPANSION: f64 = 2.0;
const CONTRACTION: f64 = 0.5;
/// How close the corners of a simplex are in the end.
const CLOSE: f64 = 1.0e-4;
/// The most steps of a simplex.
const STEPS_MAX: usize = 1000;

/// Parameters of one lane that are computed together.
const PIECE: usize = 8;
pub(super) type Piece = [f64; PIECE];

/// A simplex a lane, each with one corner more than there are parameters.
pub(super) struct Walks<const L: usize> {
    /// Values of the model.
    length: usize,
    /// Parameters of a corner, and the pieces they take.
    count: usize,
    pieces: usize,
    /// By lane and corner.
    corners: Vec<Piece>,
    /// Errors at the corners.
    pub(super) heights: Vec<[f64; L]>,
    rank: Rank<L>,
    /// The centre of all corners but the highest, by lane, and the highest turned over.
    centre: Vec<Piece>,
    reflected: Vec<Piece>,
    /// The error of what was turned over; in the end that of the lowest corner.
    error: [f64; L],
    /// Where the lanes begin, by place.
    starts: Vec<[f64; L]>,
    /// What is tried next, by place, and why.
    pub(super) point: Vec<[f64; L]>,
    trying: Trying,
    steps: [usize; L],
    /// Errors that differ by more are not close.
    far: f64,
    pub(super) damping: Damping<L>,
}

/// Why lanes try their points: a set of lanes each.
#[derive(Default)]
struct Trying {
    /// A corner of all first simplexes, one after the other; none once they stand.
    corner: Option<usize>,
    reflected: usize,
    expanded: usize,
    contracted: usize,
    /// The highest corner, and then the second, after all were drawn together.
    highest: usize,
    second: usize,
    /// The lowest corner, in the end.
    lowest: usize,
}

/// Corners by height: the highest, the next below it, the lowest; the first of several.
pub(super) struct Rank<const L: usize> {
    pub(super) highest: [u64; L],
    pub(super) second: [u64; L],
    pub(super) lowest: [u64; L],
}

impl<const L: usize> Walks<L> {
    /// Regular simplexes with sides of one, each with a corner at its start, for a model of so many values.
    pub(super) fn new(length: usize, starts: &[Vec<f64>; L]) -> Self {
        let count = starts[0].len();
        let pieces = count.div_ceil(PIECE);
        let room = |number: usize| vec![[0.0; PIECE]; number * pieces];
        let starts = (0..count).map(|place| std::array::from_fn(|lane| starts[lane][place])).collect();
        let mut walks = Self {
            length,
            count,
            pieces,
            corners: room(L * (count + 1)),
            heights: vec![[0.0; L]; count + 1],
            rank: Rank { highest: [0; L], second: [0; L], lowest: [0; L] },
            centre: room(L),
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
        walks.try_first(0);
        walks
    }

    /// About what is computed at once, in values of a model.
    pub(super) fn points_at_once(&self) -> usize {
        L * (2 * self.length + self.count * self.count).max(1)
    }

    /// What walks take in memory, bytes, about.
    pub(super) fn bytes(length: usize, count: usize) -> usize {
        let corners = (count + 3).saturating_mul(count.next_multiple_of(PIECE));
        corners.saturating_add(4 * count + length).saturating_mul(L * size_of::<f64>())
    }

    /// Goes on by the errors at the points, and says whether there is more to try. `ranked`: [`Walks::ranked`].
    #[inline(always)]
    pub(super) fn go_on(&mut self, errors: &[f64; L], ranked: impl Fn(&Self) -> Rank<L>) -> bool {
        let trying = std::mem::take(&mut self.trying);
        if let Some(corner) = trying.corner {
            for (lane, error) in errors.iter().enumerate() {
                self.move_to_point(lane, corner, *error);
            }
            if corner < self.count {
                self.try_first(corner + 1);
            } else {
                self.begin_steps(usize::MAX >> (usize::BITS as usize - L), ranked(self));
            }
            return true;
        }
        let mut ended = 0;
        let mut drawn_in = self.after_reflection(trying.reflected, errors, &mut ended);
        for lane in bits(trying.expanded) {
            let highest = self.rank.highest[lane] as usize;
            if errors[lane] < self.error[lane] {
                self.move_to_point(lane, highest, errors[lane]);
            } else {
                self.move_to_reflected(lane, highest);
            }
            // Where all corners are at one height, the highest is the second too, and changes under its name.
            let is_high = self.error[lane] >= self.height(self.rank.second[lane], lane);
            *(if is_high { &mut drawn_in } else { &mut ended }) |= 1 << lane;
        }
        for lane in bits(drawn_in) {
            match self.error[lane] < self.height(self.rank.highest[lane], lane) {
                true => self.try_beyond_centre(lane, CONTRACTION),
                false => self.try_turned_over(lane, -CONTRACTION),
            }
        }
        self.trying.contracted = drawn_in;
        for lane in bits(trying.contracted) {
            let highest = self.rank.highest[lane];
            if errors[lane] < self.height(highest, lane) {
                self.move_to_point(lane, highest as usize, errors[lane]);
                ended |= 1 << lane;
            } else {
                self.shrink(lane);
                self.try_corner(lane, highest as usize);
                self.trying.highest |= 1 << lane;
            }
        }
        for lane in bits(trying.highest) {
            self.move_to_point(lane, self.rank.highest[lane] as usize, errors[lane]);
            self.try_corner(lane, self.rank.second[lane] as usize);
        }
        self.trying.second = trying.highest;
        for lane in bits(trying.second) {
            self.move_to_point(lane, self.rank.second[lane] as usize, errors[lane]);
        }
        ended |= trying.second;
        for lane in bits(trying.lowest) {
            // The corner stays as it was before it was tried.
            self.error[lane] = errors[lane];
        }
        if ended != 0 {
            self.begin_steps(ended, ranked(self));
        }
        let Trying { corner: _, reflected, expanded, contracted, highest, second, lowest } = self.trying;
        reflected | expanded | contracted | highest | second | lowest != 0
    }

    /// The error each lane has come down to, and where.
    pub(super) fn found(&self) -> impl Iterator<Item = (f64, &[f64])> {
        (0..L).map(|lane| {
            let corner = &self.corners[self.span(lane, self.rank.lowest[lane] as usize)];
            (self.error[lane], &corner.as_flattened()[..self.count])
        })
    }

    /// Has the next corner of the first simplexes tried.
    fn try_first(&mut self, corner: usize) {
        let (dimensions, root) = (self.count as f64, (self.heights.len() as f64).sqrt());
        let far = (root - 1.0 + dimensions) / (dimensions * std::f64::consts::SQRT_2);
        let near = (root - 1.0) / (dimensions * std::f64::consts::SQRT_2);
        for (place, (point, start)) in self.point.iter_mut().zip(&self.starts).enumerate() {
            *point = match corner {
                0 => *start,
                corner => start.map(|at| at + if place + 1 == corner { far } else { near }),
            };
        }
        self.trying.corner = Some(corner);
    }

    /// What lanes do that have turned a corner over: those to draw in are given, those at the end of their step added.
    #[inline(always)]
    fn after_reflection(&mut self, lanes: usize, errors: &[f64; L], ended: &mut usize) -> usize {
        let (mut moved, mut expanded, mut contracted, mut outside) = (0, 0, 0, 0);
        for lane in bits(lanes) {
            let [highest, second, lowest] = [&self.rank.highest, &self.rank.second, &self.rank.lowest]
                .map(|corner| self.height(corner[lane], lane));
            let error = errors[lane];
            self.error[lane] = error;
            // Without branches, as nobody foresees these.
            moved |= usize::from(error < second && error >= lowest) << lane;
            expanded |= usize::from(error < lowest) << lane;
            contracted |= usize::from(error >= second) << lane;
            outside |= usize::from(error < highest) << lane;
        }
        for lane in bits(moved) {
            self.move_to_point(lane, self.rank.highest[lane] as usize, errors[lane]);
        }
        // The point has changed as it was tried.
        for lane in bits(expanded | contracted & outside) {
            let span = lane * self.pieces..(lane + 1) * self.pieces;
            let reflected = self.reflected[span].as_flattened_mut().iter_mut();
            reflected.zip(&self.point).for_each(|(reflected, point)| *reflected = point[lane]);
        }
        for lane in bits(expanded) {
            self.try_beyond_centre(lane, EXPANSION);
        }
        self.trying.expanded = expanded;
        *ended |= lanes & !expanded & !contracted;
        contracted & !expanded
    }

    /// Ends the walks of lanes that are done, and turns the highest corners of the others over.
    #[inline(always)]
    fn begin_steps(&mut self, lanes: usize, rank: Rank<L>) {
        for lane in bits(lanes) {
            self.rank.highest[lane] = rank.highest[lane];
            self.rank.second[lane] = rank.second[lane];
            self.rank.lowest[lane] = rank.lowest[lane];
            if self.is_done(lane) {
                self.try_corner(lane, rank.lowest[lane] as usize);
                self.trying.lowest |= 1 << lane;
            } else {
                self.steps[lane] += 1;
                self.find_centre(lane);
                self.try_turned_over(lane, REFLECTION);
                self.trying.reflected |= 1 << lane;
            }
        }
    }

    #[inline(always)]
    fn is_done(&self, lane: usize) -> bool {
        let range = self.height(self.rank.highest[lane], lane) - self.height(self.rank.lowest[lane], lane);
        let is_far = range > self.far;
        self.steps[lane] == STEPS_MAX || (self.steps[lane] > 0 && !is_far && self.spread(lane) < CLOSE)
    }

    /// How much the errors at the corners differ.
    fn spread(&self, lane: usize) -> f64 {
        let heights = || self.heights.iter().map(|heights| heights[lane]);
        let count = self.heights.len() as f64;
        let mean = heights().fold(0.0, |sum, height| sum + height) / count;
        let squares = heights().map(|height| (height - mean) * (height - mean) / (count - 1.0));
        squares.fold(0.0, |sum, square| sum + square).sqrt()
    }

    #[inline(always)]
    fn height(&self, corner: u64, lane: usize) -> f64 {
        self.heights[corner as usize][lane]
    }

    #[inline(always)]
    fn span(&self, lane: usize, corner: usize) -> Range<usize> {
        let start = (lane * (self.count + 1) + corner) * self.pieces;
        start..start + self.pieces
    }

    /// Moves a corner to the point that was tried.
    #[inline(always)]
    fn move_to_point(&mut self, lane: usize, corner: usize, error: f64) {
        let span = self.span(lane, corner);
        let corners = self.corners[span].as_flattened_mut().iter_mut();
        corners.zip(&self.point).for_each(|(at, point)| *at = point[lane]);
        self.heights[corner][lane] = error;
    }

    #[inline(always)]
    fn move_to_reflected(&mut self, lane: usize, corner: usize) {
        let span = self.span(lane, corner);
        self.corners[span].copy_from_slice(&self.reflected[lane * self.pieces..(lane + 1) * self.pieces]);
        self.heights[corner][lane] = self.error[lane];
    }

    #[inline(always)]
    fn try_corner(&mut self, lane: usize, corner: usize) {
        let span = self.span(lane, corner);
        let corner = self.corners[span].as_flattened().iter();
        corner.zip(&mut self.point).for_each(|(at, point)| point[lane] = *at);
    }

    /// Tries a point from the centre on, by a part of the way to the highest corner turned over.
    #[inline(always)]
    fn try_turned_over(&mut self, lane: usize, part: f64) {
        let highest = self.span(lane, self.rank.highest[lane] as usize).start;
        for piece in 0..self.pieces {
            let (centre, from) = (&self.centre[lane * self.pieces + piece], &self.corners[highest + piece]);
            let mut tried = [0.0; PIECE];
            for place in 0..PIECE {
                tried[place] = centre[place] + part * (centre[place] - from[place]);
            }
            self.try_piece(lane, piece, tried);
        }
    }

    /// Tries a point from the centre on, by a part of the way to what became of the highest corner turned over.
    #[inline(always)]
    fn try_beyond_centre(&mut self, lane: usize, part: f64) {
        for piece in lane * self.pieces..(lane + 1) * self.pieces {
            let (centre, to) = (&self.centre[piece], &self.reflected[piece]);
            let mut tried = [0.0; PIECE];
            for place in 0..PIECE {
                tried[place] = centre[place] + part * (to[place] - centre[place]);
            }
            self.try_piece(lane, piece - lane * self.pieces, tried);
        }
    }

    #[inline(always)]
    fn try_piece(&mut self, lane: usize, piece: usize, tried: Piece) {
        let points = self.point[piece * PIECE..].iter_mut();
        points.zip(tried).for_each(|(point, tried)| point[lane] = tried);
    }

    #[inline(always)]
    fn find_centre(&mut self, lane: usize) {
        let (first, highest) = (self.span(lane, 0).start, self.rank.highest[lane] as usize);
        for piece in 0..self.pieces {
            let mut sum = [0.0; PIECE];
            let mut add = |corner: usize| {
                let at = &self.corners[first + corner * self.pieces + piece];
                sum.iter_mut().zip(at).for_each(|(sum, at)| *sum += at);
            };
            (0..highest).for_each(&mut add);
            (highest + 1..=self.count).for_each(&mut add);
            self.centre[lane * self.pieces + piece] = sum.map(|sum| sum / self.count as f64);
        }
    }

    /// Halves the distance of all corners to the lowest.
    #[inline(always)]
    fn shrink(&mut self, lane: usize) {
        let (first, lowest) = (self.span(lane, 0).start, self.rank.lowest[lane] as usize);
        for piece in 0..self.pieces {
            let to = self.corners[first + lowest * self.pieces + piece];
            for corner in (0..=self.count).filter(|corner| *corner != lowest) {
                let at = &mut self.corners[first + corner * self.pieces + piece];
                at.iter_mut().zip(to).for_each(|(at, to)| *at = to + (*at - to) / 2.0);
            }
        }
    }

    /// The corners of all lanes by height.
    #[inline(always)]
    pub(super) fn ranked(&self) -> Rank<L> {
        let (mut high, mut low) = (self.heights[0], self.heights[0]);
        let (mut highest, mut lowest) = ([0; L], [0; L]);
        for (corner, height) in (0_u64..).zip(&self.heights) {
            for lane in 0..L {
                let is_higher = height[lane] > high[lane];
                high[lane] = if is_higher { height[lane] } else { high[lane] };
                highest[lane] = if is_higher { corner } else { highest[lane] };
                let is_lower = height[lane] < low[lane];
                low[lane] = if is_lower { height[lane] } else { low[lane] };
                lowest[lane] = if is_lower { corner } else { lowest[lane] };
            }
        }
        let (mut second, mut middle) = (lowest, low);
        for (corner, height) in (0_u64..).zip(&self.heights) {
            for lane in 0..L {
                let is_between = (height[lane] > middle[lane]) & (height[lane] < high[lane]);
                middle[lane] = if is_between { height[lane] } else { middle[lane] };
                second[lane] = if is_between { corner } else { second[lane] };
            }
        }
        Rank { highest, second, lowest }
    }
}
