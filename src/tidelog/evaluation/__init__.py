"""Program to answers: plan, SQL over packed time, and the engines that run it."""
