"""The alerts' part of the serving layer: relations of alerts, and alerts as they are sent."""
