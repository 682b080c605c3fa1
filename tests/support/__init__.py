"""What tests share: programs and facts at random, checkers, and streams to kill."""
