//! One agent: its life, its deliveries, and the task that carries out what they decide.

mod life;
