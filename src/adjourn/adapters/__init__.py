"""What adjourn looks like from elsewhere: model providers and frameworks. Each module imports its SDK when it is used."""
